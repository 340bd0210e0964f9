"""The page of a plan in headless Chromium: elements and figures are the record's, and nothing fails."""

import html
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

CHROMIUM = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
WHY = "no Chromium here: apt-get install chromium"
METRONOME = Path("benchmarks/metronome").resolve()
# Ahead of the page's own script, and behind it.
WATCHING = "<script>window.onerror = (text) => { document.documentElement.dataset.error = text; };</script>"
MOST_BYTES, MOST_MS = 8 << 20, 2000


class Pages(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def plan(self, *arguments, **environment):
        """The record of a plan, and its page."""
        files = self.folder / "plan.json", self.folder / "plan.html"
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
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        command += [f"--user-data-dir={self.folder / 'user'}", "--window-size=1280,900", file.as_uri()]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertNotIn("data-error", outcome.stdout[:2000])
        return outcome.stdout

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
    def test_thousands_of_nodes_open_at_once(self):
        record, page = self.plan("lstm_seq", "--scale", "medium", METRONOME_WITHOUT="fuse")
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
