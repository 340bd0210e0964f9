"""`train --watch`: the page in headless Chromium, what it is told over HTTP, and who is refused."""

import html
import http.client
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from chromium import CHROMIUM, WHY, dom_of

METRONOME = Path("benchmarks/metronome").resolve()
MOST_PAGES = 16


class Watched(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def train(self, *arguments, watch="0", **options):
        """A training in the background, and the port of its page."""
        command = [METRONOME, "train", "digits", "--no-compare", "--no-save", "--watch", watch, *arguments]
        # A file: a pipe that nobody reads would fill, and hold the training up.
        with tempfile.NamedTemporaryFile(dir=self.folder) as said:
            process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, cwd=self.folder, **options)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            while True:
                ended = process.poll() is not None
                text = Path(said.name).read_text()
                if found := re.search(r"(?m)^watch   http://\S+:(\d+)/$", text):
                    return process, int(found.group(1))
                if ended:
                    self.fail(text)
                time.sleep(0.02)

    def ask(self, port, path="/", method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        self.addCleanup(connection.close)
        connection.request(method, path, headers=headers)
        return connection.getresponse()

    def news(self, response):
        """The objects of a stream of events, to its end."""
        for line in response:
            if line.startswith(b"data: "):
                yield json.loads(line[len("data: ") :])

    def test_a_page_is_told_everything_to_the_end(self):
        process, port = self.train("--epochs", "200")
        shown, last = {}, None
        for last in self.news(self.ask(port, "/events")):
            for series in last["series"]:
                one = shown.setdefault(series["at"], {"name": series["name"], "stride": series["stride"], "points": []})
                while one["stride"] < series["stride"]:
                    one["points"] = one["points"][::2]
                    one["stride"] *= 2
                one["points"] += zip(series["points"][::2], series["points"][1::2], strict=True)
                one["count"], one["last"] = series["count"], series["last"]
        steps = last["steps"]
        self.assertEqual((last["title"], last["state"], last["step"]), ("digits", "finished", steps))
        shown = {one["name"]: one for one in shown.values()}
        self.assertEqual(
            sorted(shown), ["learning_rate", "loss", "peak_memory_mib", "steps_per_second", "test"]
        )
        for name in ("loss", "learning_rate"):
            one = shown[name]
            self.assertEqual(one["count"], steps)
            self.assertEqual([step for step, _ in one["points"]], list(range(1, steps + 1, one["stride"])))
            self.assertLessEqual(len(one["points"]), 4096)
            self.assertEqual(one["last"][0], steps)
        self.assertEqual([step for step, _ in shown["test"]["points"]], list(range(steps // 200, steps + 1, steps // 200)))
        self.assertEqual(process.wait(), 0)

    def test_the_page_holds_all_it_needs(self):
        _, port = self.train("--epochs", "100000")
        response = self.ask(port)
        page = response.read().decode()
        self.assertEqual(re.findall(r"(?:src|href)\s*=|@import|url\(|@[A-Z]+@", page), [])
        self.assertIn("default-src 'none'", response.getheader("Content-Security-Policy"))
        self.assertEqual(response.getheader("Cache-Control"), "no-store")

    def rows(self, dom):
        """Of the table of values: name, last, at step, lowest, highest, points."""
        rows = re.findall(r"<tr><td>(.*?)</td>" + r'<td class="number">(.*?)</td>' * 5, dom)
        return {html.unescape(name): cells for name, *cells in rows}

    @unittest.skipIf(CHROMIUM is None, WHY)
    def test_a_browser_shows_a_training_to_its_end(self):
        process, port = self.train("--epochs", "900")
        # Its clock stands still while the page is connected.
        dom, said = dom_of(f"http://127.0.0.1:{port}/", self.folder / "user", "--virtual-time-budget=100")
        self.assertEqual(process.wait(timeout=5), 0)
        self.assertEqual(said, [])
        self.assertRegex(dom, r"<title>100% digits</title>")
        self.assertRegex(dom, r'<span id="state" role="status" class="finished">finished</span>')
        rows, names = self.rows(dom), ["loss", "learning_rate", "test", "steps_per_second", "peak_memory_mib"]
        self.assertEqual(list(rows), names)
        self.assertEqual(re.findall(r"<figcaption><span>(.*?)</span>", dom), names)
        steps = re.search(r"<dt>step</dt><dd>([\d,]+) of \1</dd>", dom).group(1)
        self.assertEqual((rows["loss"][1], rows["loss"][4], rows["test"][1], rows["test"][4]), (steps, steps, steps, "900"))

    @unittest.skipIf(CHROMIUM is None, WHY)
    def test_a_browser_shows_what_it_is_told(self):
        _, port = self.train("--epochs", "100000")
        page = self.ask(port).read().decode()
        none = {"title": "<b>run</b>", "state": "running", "seconds": 3725, "step": 8, "steps": None, "rate": None, "left": None}
        loss = {"at": 0, "name": "<i>loss</i>", "stride": 1, "count": 4, "last": [4, 2.5], "points": [1, 4, 2, 1e-9, 3, "NaN", 4, 2.5]}
        flat = {"at": 1, "name": "flat", "stride": 2, "count": 2, "last": [3, "Infinity"], "points": [2, "-Infinity"]}
        thinned = {"at": 0, "name": "<i>loss</i>", "stride": 2, "count": 8, "last": [8, 2], "points": [5, -1.5, 7, 3]}
        told = [
            {**none, "memory": 3 << 20, "series": [loss], "notes": [[61, 2, "<u>first</u>"], [3600, 3, "second"]]},
            {**none, "memory": 3 << 30, "steps": 10, "rate": 1234.56, "left": 59.6, "series": [thinned, flat], "notes": []},
        ]
        fake = f"""<script>
            window.EventSource = class {{ close() {{}} }};
            window.addEventListener('load', () => {{
              for (const news of {json.dumps(told)}) source.onmessage({{data: JSON.stringify(news)}});
              document.querySelector('canvas').dispatchEvent(new KeyboardEvent('keydown', {{key: 'ArrowLeft'}}));
              at('log').click();
            }});
            </script>"""
        file = self.folder / "page.html"
        file.write_text(page.replace("<head>", "<head>" + fake.replace("</b>", "<\\/b>"), 1))
        dom, said = dom_of(file.as_uri(), self.folder / "user")
        self.assertEqual(said, [])
        self.assertIn("<title>80% &lt;b&gt;run&lt;/b&gt;</title>", dom)
        facts = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", dom))
        self.assertEqual(
            facts,
            {"step": "8 of 10", "time": "1 h 2 min", "left": "1 min 0 s", "steps per second": "1235", "memory": "3.00 GiB"},
        )
        self.assertEqual(
            self.rows(dom),
            {
                "<i>loss</i>": ["2", "8", "-1.5", "4", "8"],  # step 2 is thinned out, step 3 is none
                "flat": ["Infinity", "3", "NaN", "NaN", "2"],
            },
        )
        labels = re.findall(r'aria-label="([^"]*)" data-points="(\d+)"', dom)
        self.assertEqual(
            labels,
            [("&lt;i&gt;loss&lt;/i&gt;: -1.5 at step 5, from 2 to 4", "4"), ("flat: Infinity at step 3", "1")],
        )
        notes = re.findall(r"<li>(.*?)</li>", dom)
        self.assertEqual(notes, ["1 h 0 min, step 3: second", "1 min 1 s, step 2: &lt;u&gt;first&lt;/u&gt;"])

    def test_stuck_pages_and_more_than_there_may_be_hold_nobody_up(self):
        process, port = self.train("--epochs", "800")
        stuck = []
        for _ in range(MOST_PAGES):
            one = socket.socket()
            self.addCleanup(one.close)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(("127.0.0.1", port))
            one.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")  # its answer is never read
            stuck.append(one)
        for one in stuck:
            self.assertTrue(select.select([one], [], [], 10)[0])
        refused = self.ask(port, "/events")
        self.assertEqual((refused.status, refused.read()), (503, b"16 pages are open already.\n"))
        self.assertEqual(self.ask(port).status, 200)
        stuck.pop().close()
        deadline = time.monotonic() + 10
        while (joined := self.ask(port, "/events")).status != 200 and time.monotonic() < deadline:
            time.sleep(0.1)
        last = None
        for last in self.news(joined):
            pass
        self.assertEqual((last["state"], last["step"]), ("finished", last["steps"]))
        self.assertEqual(process.wait(timeout=20), 0)

    def connected(self, port, count):
        sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
        for one in sockets:
            self.addCleanup(one.close)
        return sockets

    def dropped(self, sockets):
        """Those that the server has left."""
        left = []
        for one in select.select(sockets, [], [], 0)[0]:
            try:
                if one.recv(1) == b"":
                    left.append(one)
            except ConnectionResetError:  # a byte came later
                left.append(one)
        return left

    def test_half_requests_keep_nobody_out_and_are_dropped(self):
        _, port = self.train("--epochs", "100000")
        begin = time.monotonic()
        half = self.connected(port, 60)
        for one in half:
            one.sendall(b"GET / HTTP/1.1\r\nHost: local")
        self.assertEqual(self.ask(port).status, 200)
        self.assertLess(time.monotonic() - begin, 2)
        self.assertEqual(self.dropped(half), [])
        time.sleep(2.5)
        self.assertEqual(self.dropped(half), half)

    def test_requests_that_trickle_in_keep_nobody_out_and_are_dropped(self):
        _, port = self.train("--epochs", "100000")
        slow = self.connected(port, 20)
        begin = time.monotonic()
        while time.monotonic() - begin < 3:
            for one in slow:
                try:
                    one.sendall(b"G")
                except (BrokenPipeError, ConnectionResetError):
                    pass  # dropped
            asked = time.monotonic()
            self.assertEqual(self.ask(port).status, 200)
            self.assertLess(time.monotonic() - asked, 2)
            time.sleep(0.2)
        self.assertEqual(self.dropped(slow), slow)

    def test_a_request_may_come_in_parts(self):
        _, port = self.train("--epochs", "100000")
        (one,) = self.connected(port, 1)
        for part in (b"GET / HTTP/1.1\r\nHost: local", b"host\r\n\r", b"\n"):
            one.sendall(part)
            time.sleep(0.1)
        self.assertEqual(one.recv(15), b"HTTP/1.1 200 OK")

    def test_others_are_refused(self):
        _, port = self.train("--epochs", "100000")
        for host in ("example.com", f"example.com:{port}", "127.0.0.1.example.com", "localhost.example.com", ""):
            response = self.ask(port, "/events", Host=host)
            self.assertEqual(response.status, 403)
            self.assertEqual(response.read().decode(), f'This page is http://127.0.0.1:{port}/, and not of "{host}".\n')
        for host in ("localhost", f"LOCALHOST:{port}", "127.0.0.1", "[::1]", f"[::1]:{port}"):
            self.assertEqual(self.ask(port, Host=host).status, 200, host)
        self.assertEqual(self.ask(port, "/other").status, 404)
        self.assertEqual(self.ask(port, "/events", method="POST").status, 404)

    def test_all_addresses_are_served_where_that_is_asked_for(self):
        _, port = self.train("--epochs", "100000", watch="0.0.0.0:0")
        for host in (f"10.1.2.3:{port}", socket.gethostname(), "localhost"):
            self.assertEqual(self.ask(port, Host=host).status, 200, host)
        self.assertEqual(self.ask(port, Host="example.com").status, 403)

    def test_ports_that_cannot_be_had_are_told_of(self):
        _, port = self.train("--epochs", "100000")
        for watch, status, said in (
            (
                str(port),
                1,
                f"no page can be served at 127.0.0.1:{port}: Address already in use: "
                "name another port, or 0 for any that is free",
            ),
            (
                "192.0.2.1:80",
                1,
                "no page can be served at 192.0.2.1:80: Cannot assign requested address: "
                "name another port, or 0 for any that is free",
            ),
            ("65536", 2, '--watch: "65536" is no port from 0 to 65535, and no ADDRESS:PORT.'),
            ("here", 2, '--watch: "here" is no port from 0 to 65535, and no ADDRESS:PORT.'),
            ("::1:80", 2, '--watch: "::1:80" is no port from 0 to 65535, and no ADDRESS:PORT.'),
        ):
            command = [METRONOME, "train", "digits", "--no-compare", "--no-save", "--epochs", "1", "--watch", watch]
            outcome = subprocess.run(command, capture_output=True, text=True, cwd=self.folder)
            self.assertEqual((outcome.returncode, outcome.stderr), (status, f"metronome: {said}\n"))
            self.assertNotIn("epoch", outcome.stdout)

    def test_a_log_that_fails_is_noted(self):
        def with_small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))

        _, port = self.train("--epochs", "100", "--log", "run", preexec_fn=with_small_files)
        notes = [note for news in self.news(self.ask(port, "/events")) for note in news["notes"]]
        self.assertEqual(len(notes), 1)
        self.assertRegex(notes[0][2], r"^the log ends before step \d+: run/\S+: cannot be written: File too large$")

    def test_an_interrupt_ends_it_and_frees_the_port(self):
        process, port = self.train("--epochs", "100000")
        stream = self.ask(port, "/events")
        self.assertEqual(next(self.news(stream))["state"], "running")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=5), -signal.SIGINT)
        again, same = self.train("--epochs", "100000", watch=str(port))
        self.assertEqual(same, port)
        self.assertEqual(next(self.news(self.ask(port, "/events")))["state"], "running")


if __name__ == "__main__":
    if CHROMIUM is None:
        print(f"skipped: the page in a browser ({WHY})", flush=True)
    unittest.main()
