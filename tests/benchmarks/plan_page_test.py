"""The page of a plan in headless Chromium: elements and figures are the record's, and nothing fails."""

import html
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from collections import Counter
from pathlib import Path

from chromium import CHROMIUM, WHY, dom_of

METRONOME = Path("benchmarks/metronome").resolve()
os.environ["METRONOME_LOG"] = "error"  # beside other programs it warns that kernels are timed under load
# Ahead of the page's own script, and behind it.
WATCHING = "<script>window.onerror = (text) => { document.documentElement.dataset.error = text; };</script>"
MOST_BYTES, MOST_MS = 8 << 20, 2000


class Pages(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def plan(self, *arguments, name="plan", **environment):
        """The record of a plan, and its page."""
        files = self.folder / f"{name}.json", self.folder / f"{name}.html"
        command = [METRONOME, "plan", *arguments, "--threads", "1", "--json", files[0], "--html", files[1]]
        outcome = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
        self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))
        return json.loads(files[0].read_text()), files[1].read_text()

    def drawn(self, page, script=""):
        """The page's DOM after it was drawn and `script` ran in it."""
        # At its ends alone: the record, in the middle, is not searched.
        head, tail = page.index("<head>") + len("<head>"), page.rindex("</body>")
        watched = page[:head] + WATCHING + page[head:tail] + f"<script>{script}</script>" + page[tail:]
        file = self.folder / "watched.html"
        file.write_text(watched)
        dom, said = dom_of(file.as_uri(), self.folder / "user")
        self.assertEqual(said, [])
        self.assertNotIn("data-error", dom[:2000])
        return dom

    def text(self, dom, name):
        """The text of the element with that id."""
        inside = re.search(rf'id="{name}"[^>]*>(.*?)</(?:p|h1|dl|nav)>|id="{name}"[^>]*>(.*?)</div>', dom, re.S)
        self.assertIsNotNone(inside, name)
        return html.unescape(re.sub(r"<[^>]*>", "|", inside.group(1) or inside.group(2) or ""))

    def test_pages_hold_everything_they_need(self):
        _, page = self.plan("mlp")
        outside = page[: page.index('id="record"')] + page[page.index("</script>", page.index('id="record"')) :]
        self.assertEqual(re.findall(r'(?:src|href)\s*=|@import|url\(', outside), [])

    @unittest.skipIf(CHROMIUM is None, WHY)
    def test_elements_and_figures_are_the_records(self):
        for arguments in (
            ["residual_tower", "--profile"],
            ["gated_routing"],
            ["feedback_adaptive"],
            ["lstm_seq", "--scale", "medium"],
            ["digits", "--profile"],
        ):
            record, page = self.plan(*arguments)
            dom = self.drawn(page)
            report, plan = record["report"]["plans"][0], record["plans"][0]
            with self.subTest(arguments):
                held = [v for n in plan["nodes"] for v in n["values"] if v["begin"] >= 0 and v["bytes"] > 0]
                self.assertIn(f'data-drawn="{len(held)}"', dom)
                self.assertIn(f"{len(held)} values in the arena.", self.text(dom, "value"))
                self.assertEqual(self.text(dom, "title"), f"{record['report']['graph']} on cpu_replay")
                totals = self.text(dom, "totals")
                for name, figure in (
                    ("kernels", report["kernels"]),
                    ("before passes", report["kernels_declared"]),
                    ("nodes", len(plan["nodes"])),
                    ("parameters", f"{record['report']['parameter_count']:,}"),
                ):
                    self.assertRegex(totals, rf"\|{name}\|+{figure}\|")
                nodes = len(plan["nodes"])
                self.assertTrue(self.text(dom, "found").startswith(f"{nodes} of {nodes} nodes"))
                self.assertEqual(self.text(dom, "plans").count("train"), 1)
                for one in report["passes"]:
                    numbers = [f'<td class="number">{one[key]}</td>' for key in ("nodes_before", "nodes_after")]
                    self.assertIn(f"<td>{one['name']}</td>" + "".join(numbers), dom)
                for choice in report["choices"]:
                    self.assertIn(f"<td>{html.escape(choice['what'], quote=False)}</td><td>{choice['chosen']}</td>", dom)
                self.assertEqual("With measured times." in self.text(dom, "about"), "--profile" in arguments)
                self.assertEqual(", under load:" in self.text(dom, "time"), record["times"]["under_load"])

    @unittest.skipIf(CHROMIUM is None, WHY)
    def test_times_are_told_by_line_and_by_the_members_of_groups(self):
        record, page = self.plan("residual_tower", "--profile")
        dom = self.drawn(page)
        kernels = record["times"]["kernels"]
        for name in [kernels[0]["line"], *(f"group of {each['members']}" for each in kernels if each["members"])][:2]:
            self.assertIn(f"<td>{html.escape(name, quote=False)}</td>", dom)

    @unittest.skipIf(CHROMIUM is None, WHY)
    def test_times_that_were_taken_under_load_say_so(self):
        _, page = self.plan("mlp", "--profile")
        for told, said in (("true", True), ("false", False)):
            dom = self.drawn(re.sub(r'"under_load":(?:true|false)', f'"under_load":{told}', page))
            text = self.text(dom, "time")
            self.assertIn(" us a step. Each kernel: the median of its runs in 20 steps, by the host's clock", text)
            self.assertEqual(", under load: other programs took more than a fifth of the cores." in text, said)

    @unittest.skipIf(CHROMIUM is None, WHY)
    def test_keys_scopes_and_the_search_find_what_is_there(self):
        record, page = self.plan("residual_tower")
        nodes = record["plans"][0]["nodes"]
        dom = self.drawn(
            page,
            """
            const press = (key) => at('memory').dispatchEvent(new KeyboardEvent('keydown', {key}));
            press('ArrowRight'); press('ArrowRight'); press('ArrowLeft');
            for (const name of ['repeat', '3']) {
              [...document.querySelectorAll('#graph button')].find((each) => each.textContent.endsWith(' ' + name)).click();
            }
            [...document.querySelectorAll('#graph button')].find((each) => each.textContent.startsWith('layer_norm')).click();
            at('search').value = 'ADAM_update';
            at('search').dispatchEvent(new Event('input'));
            """,
        )
        value = self.text(dom, "value")
        self.assertRegex(value, r"^f32\[.*\], .* made by layer_norm \"repeat/3/")
        self.assertEqual(self.text(dom, "crumbs").replace("|", ""), "residual_tower / repeat / 3")
        self.assertRegex(self.text(dom, "node"), r'^layer_norm .*"repeat/3/layer_norm" \(.*residual_tower.cc:\d+\); kernel own')
        found = sum("adam_update" in node["op"] or "adam_update" in node["path"] for node in nodes)
        self.assertTrue(self.text(dom, "found").startswith(f"{found} of {len(nodes)} nodes"))

    @unittest.skipIf(CHROMIUM is None, WHY)
    def test_two_plans_differ_by_what_came_and_went(self):
        earlier, _ = self.plan("residual_tower", "--profile", METRONOME_WITHOUT="absorb", name="earlier")
        record, page = self.plan("residual_tower", "--profile", "--against", self.folder / "earlier.json")
        dom = self.drawn(page)
        self.assertIn('id="beside" aria-labelledby="beside-title">', dom)
        totals = self.text(dom, "beside-totals")
        plans = [each["report"]["plans"][0] for each in (earlier, record)]
        was, now = [each["kernels"] for each in plans]
        self.assertGreater(was, now)
        self.assertRegex(totals, rf"\|kernels\|+{was}\|+{now}\|+\u2212{was - now}\|")
        steps = [each["times"]["step_microseconds"] for each in (earlier, record)]
        self.assertRegex(totals, rf"\|a step\|+{steps[0]:.{2 if steps[0] < 10 else 1}f} us\|")
        ops = [Counter(n["op"] for n in each["plans"][0]["nodes"]) for each in (earlier, record)]
        op = next(op for op in ops[0] if ops[0][op] > ops[1][op])
        fewer = ops[0][op] - ops[1][op]
        self.assertRegex(self.text(dom, "beside-ops"), rf"\|{op}\|+{ops[0][op]}\|+{ops[1][op]}\|+\u2212{fewer}\|")
        came, went = re.match(r"(\d+) nodes came, (\d+) went\.", self.text(dom, "beside-count")).groups()
        self.assertEqual(int(came) - int(went), ops[1].total() - ops[0].total())
        # A plan beside itself.
        _, page = self.plan("residual_tower", "--against", self.folder / "plan.json", name="same")
        dom = self.drawn(page)
        self.assertIn("None: number and bytes of each op are equal.", dom)
        self.assertEqual(self.text(dom, "beside-count"), "0 nodes came, 0 went.")
        # One without such a plan.
        _, page = self.plan("digits", "--against", self.folder / "plan.json", name="other")
        switched = self.drawn(page, "document.querySelectorAll('#plans button')[1].click();")
        self.assertRegex(self.text(switched, "beside-about"), r'The earlier record has no plan "evaluate')
        # Alone nothing of it is seen.
        self.assertIn('id="beside" aria-labelledby="beside-title" hidden="">', self.drawn(self.plan("mlp")[1]))

    def test_what_a_budget_computes_again_is_shown_with_its_price(self):
        record, page = self.plan("transformer")
        whole = record["report"]["plans"][0]["arena_bytes"]
        self.assertEqual(record["report"]["plans"][0]["recomputed"], [])
        if CHROMIUM is not None:
            self.assertIn('id="recomputed-section" hidden="">', self.drawn(page))
        record, page = self.plan("transformer", "--memory-budget", f"{whole // 2048}KiB", name="bounded")
        plan = record["report"]["plans"][0]
        self.assertLessEqual(plan["arena_bytes"], whole // 2)
        again = plan["recomputed"]
        self.assertGreater(len(again), 0)
        if CHROMIUM is None:
            return
        dom = self.drawn(page)
        self.assertIn('id="recomputed-section">', dom)
        self.assertRegex(self.text(dom, "recomputed-about"), rf"^{len(again)} kernels run a second time in each step")
        table = self.text(dom, "recomputed")
        for value in again:
            self.assertIn(f"|{value['path']}|", table)

    def test_what_is_no_number_of_bytes_is_no_budget(self):
        for wrong in ("-1", "18446744073709551616", "1e3", "abc", "64 MiB", "9999999999GiB", ""):
            command = [METRONOME, "plan", "mlp", f"--memory-budget={wrong}"]
            outcome = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(outcome.returncode, 2)
            said = f'"{wrong}" is no number of bytes, as 67108864, 64MiB or 64MB'
            self.assertIn(said if wrong else "--memory-budget", outcome.stderr)

    def test_what_it_cannot_stand_beside_is_refused(self):
        def refused(*arguments):
            command = [METRONOME, "plan", "mlp", *arguments]
            outcome = subprocess.run(command, capture_output=True, text=True, cwd=self.folder)
            return outcome.returncode, outcome.stdout + outcome.stderr

        (self.folder / "other.json").write_text("{}")
        (self.folder / "folder").mkdir()
        html = ["--html", "p.html", "--against"]
        self.assertEqual(
            refused("--against", "x.json"),
            (2, "metronome: --against shows two plans on one page: say --html FILE, too.\n"),
        )
        self.assertEqual(
            refused(*html, "x.json"), (1, "metronome: x.json: cannot be read: No such file or directory\n")
        )
        self.assertEqual(refused(*html, "folder"), (1, "metronome: folder: cannot be read: it is a folder\n"))
        status, text = refused(*html, "other.json")
        self.assertEqual(status, 1)
        self.assertTrue(text.startswith("metronome: other.json: this is no plan record: it has no"), text)
        self.assertFalse((self.folder / "p.html").exists())

    def test_traces_hold_the_steps_that_were_taken(self):
        trace = self.folder / "trace.json"

        def taken(*arguments):
            command = [METRONOME, *arguments, "--trace", trace]
            outcome = subprocess.run(command, capture_output=True, text=True, cwd=self.folder)
            self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))
            events = json.loads(trace.read_text())["traceEvents"]
            trace.unlink()
            steps = [each["name"] for each in events if each["ph"] == "X" and each["name"].startswith("step ")]
            kernels = sum("args" in each and each["ph"] == "X" for each in events)
            return outcome.stdout, steps, kernels

        _, steps, kernels = taken("plan", "mlp", "--profile")
        self.assertEqual(len(steps), 5)
        self.assertEqual(kernels % 5, 0)
        said, steps, kernels = taken("compare", "mlp", "--rounds", "7")
        self.assertRegex(said, r"\nmlp ")
        self.assertEqual(len(steps), 5)
        self.assertEqual(kernels % 5, 0)
        train = ["train", "digits", "--no-compare"]
        # The training's own figures do not change.
        plain = subprocess.run([METRONOME, *train, "--no-save", "--epochs", "1"], capture_output=True, text=True)
        said, steps, _ = taken(*train, "--no-save", "--epochs", "1")
        self.assertEqual(steps, [f"step {i} (train)" for i in range(10, 15)])
        result = [re.search(r"^test    .*", text, re.M).group() for text in (said, plain.stdout)]
        self.assertEqual(result[0], result[1])
        # Few steps: the last ones; and none.
        _, steps, _ = taken(*train, "--epochs", "1", "--batch", "200")
        self.assertEqual(steps, [f"step {i} (train)" for i in range(3, 8)])
        command = [METRONOME, *train, "--epochs", "1", "--batch", "200", "--resume", "digits.safetensors", "--trace", trace]
        outcome = subprocess.run(command, capture_output=True, text=True, cwd=self.folder)
        self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))
        self.assertIn("trace   none: no step was left to take", outcome.stdout)
        outcome = subprocess.run([METRONOME, "plan", "mlp", "--trace", trace], capture_output=True, text=True)
        wrong = "metronome: --trace shows the steps that --profile takes: say --profile, too.\n"
        self.assertEqual((outcome.returncode, outcome.stderr), (2, wrong))

    @unittest.skipIf(CHROMIUM is None, WHY)
    def test_thousands_of_nodes_open_at_once(self):
        record, page = self.plan("lstm_seq", "--scale", "medium", METRONOME_WITHOUT="fuse,keep_whole")
        self.assertGreater(len(record["plans"][0]["nodes"]), 4000)
        self.assertLess(len(page), MOST_BYTES)
        dom = self.drawn(page, "document.body.dataset.ms = performance.now();")
        ms = float(re.search(r'data-ms="([\d.]+)"', dom).group(1))
        print(f"{len(record['plans'][0]['nodes'])} nodes: {len(page) >> 10} KiB, {ms:.0f} ms")
        self.assertLess(ms, MOST_MS)


if __name__ == "__main__":
    if CHROMIUM is None:
        print(f"skipped: the page of a plan in a browser ({WHY})", flush=True)
    unittest.main()
