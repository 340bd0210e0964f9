"""benchmarks/exported/measure.py prints a table of sizes and times whose numbers can be true:
exported_test.py MEASURE METRONOME."""

import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

MEASURE, METRONOME = (Path(file).resolve() for file in sys.argv[1:3])
MODEL = "mlp"
COLUMNS = ["kB", "numbers kB", "start ms", "evaluate us", "train us"]


def fastest_empty_start():
    """Milliseconds from exec to the end of a program without anything, at best of 20."""
    times = []
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "empty.cc"), Path(folder, "empty")
        source.write_text("int main() {}\n", encoding="utf-8")
        subprocess.run(["g++", "-O2", source, "-o", program], check=True)
        for _ in range(20):
            begin = time.perf_counter()
            subprocess.run([program], check=True)
            times.append(1e3 * (time.perf_counter() - begin))
    return min(times)


class Measure(unittest.TestCase):
    def test_its_table(self):
        missing = [tool for tool in ("cmake", "gcc", "g++", "strip") if shutil.which(tool) is None]
        if missing:
            why = f"{', '.join(missing)} not installed"
            print(f"skipped: sizes and times of an exported library ({why})", flush=True)
            self.skipTest(why)
        # -O1 compiles in half the time of -O3.
        command = [sys.executable, MEASURE, MODEL, "--metronome", METRONOME, "--optimization=-O1"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        machine, head, *rows = done.stdout.splitlines()
        empty = re.fullmatch(r".+; one thread; a program without anything starts and ends in (\d+\.\d) ms", machine)
        self.assertTrue(empty, machine)
        # Its median may be of a busier moment than the rows': the fastest start is no slower.
        fastest = min(float(empty[1]), fastest_empty_start())
        self.assertEqual(re.split(r"  +", head.strip()), COLUMNS)
        names, numbers = zip(*(re.fullmatch(r"(\S+(?:, evaluation)?)((?: +\d+(?:\.\d+)?)+)", row).groups() for row in rows), strict=True)
        self.assertEqual(names, (f"{MODEL}, evaluation", MODEL))
        evaluation, training = ([float(number) for number in row.split()] for row in numbers)
        self.assertEqual((len(evaluation), len(training)), (4, 5))

        parameters = 4e-3 * 17_184  # kB; those that begin as zeros or ones take no numbers
        for row in (evaluation, training):
            self.assertTrue(0.95 * parameters < row[1] <= parameters, row)
            self.assertGreater(row[2], 0.5 * fastest)
            self.assertTrue(0.1 < row[3] < 1e5, row)  # a step of a few products
        self.assertTrue(50 < evaluation[0] < training[0] < 2000, rows)
        self.assertGreater(training[4], training[3])


if __name__ == "__main__":
    del sys.argv[1:]
    unittest.main()
