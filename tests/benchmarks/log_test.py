"""`train --log`: TensorBoard reads the points that scalars.csv has, once each, whatever was resumed or
killed between."""

import csv
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

METRONOME = Path("benchmarks/metronome").resolve()
os.environ["METRONOME_LOG"] = "error"  # beside other programs it warns that kernels are timed under load
READER = os.environ.get("METRONOME_TENSORBOARD", "")
sys.path.insert(0, READER)
try:
    if not Path(READER).is_dir():
        raise ImportError("`./metronome test` installs it")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    WHY = None
except ImportError as reason:
    WHY = f"no reader of TensorBoard's here: {reason}"


class Logs(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def command(self, epochs, *arguments, log="run"):
        return [METRONOME, "train", "digits", "--no-compare", "--epochs", str(epochs), "--log", log, *arguments]

    def train(self, epochs, *arguments, **options):
        return subprocess.run(self.command(epochs, *arguments, **options), capture_output=True, text=True, cwd=self.folder)

    def trained(self, *arguments, **options):
        outcome = self.train(*arguments, **options)
        self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))

    def points(self, log="run"):
        """By name: steps and values of the table."""
        points = {}
        with (self.folder / log / "scalars.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                points.setdefault(row["name"], []).append((int(row["step"]), float(row["value"])))
        return points

    def require_same_in_tensorboard(self, points, log="run"):
        if WHY:
            return
        reader = EventAccumulator(str(self.folder / log), size_guidance={"scalars": 0})
        reader.Reload()
        self.assertEqual(sorted(reader.Tags()["scalars"]), sorted(points))
        for name, expected in points.items():
            read = reader.Scalars(name)
            self.assertEqual([each.step for each in read], [step for step, _ in expected], name)
            for each, (_, value) in zip(read, expected, strict=True):
                self.assertAlmostEqual(each.value, value, delta=1e-6 * abs(value))

    def test_resumed_runs_have_each_point_once(self):
        self.trained(2)
        points = self.points()
        per_epoch = len(points["loss"]) // 2
        self.assertEqual([step for step, _ in points["loss"]], list(range(1, 2 * per_epoch + 1)))
        for name in ("test", "steps_per_second", "peak_memory_mib"):
            self.assertEqual([step for step, _ in points[name]], [per_epoch, 2 * per_epoch])
        rates = points["learning_rate"]
        self.assertEqual([step for step, _ in rates], [step for step, _ in points["loss"]])
        self.assertEqual([value for _, value in rates], sorted((value for _, value in rates), reverse=True))
        self.assertAlmostEqual(rates[0][1], 2e-3, delta=1e-5)  # the task's own, along a cosine
        self.require_same_in_tensorboard(points)
        # Further from the checkpoint, which stays as it is; then once more, but not as far.
        resume = ["--resume", "digits.safetensors", "--no-save"]
        for epochs in (4, 3):
            self.trained(epochs, *resume)
            points = self.points()
            self.assertEqual([step for step, _ in points["loss"]], list(range(1, epochs * per_epoch + 1)))
            self.require_same_in_tensorboard(points)

    def test_a_log_changes_nothing_that_is_trained(self):
        # Kernels are timed once.
        self.enterContext(unittest.mock.patch.dict(os.environ, METRONOME_TUNING=str(self.folder / "tuning.json")))
        run = [METRONOME, "train", "digits", "--no-compare"]
        ways = {"alone": [], "logged": ["--log", "run"]}
        for way, log in ways.items():
            command = [*run, "--epochs", "1", "--checkpoint", f"{way}.safetensors", *log]
            subprocess.run(command, check=True, capture_output=True, cwd=self.folder)
        alone, logged = ((self.folder / f"{way}.safetensors").read_bytes() for way in ways)
        self.assertEqual(alone, logged)

    def test_a_killed_run_keeps_what_was_written_out(self):
        process = subprocess.Popen(
            self.command(100000, "--no-save"), stdout=subprocess.DEVNULL, cwd=self.folder
        )
        table = self.folder / "run" / "scalars.csv"
        end = time.monotonic() + 60
        while not (table.exists() and table.stat().st_size > 10000) and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        text = table.read_text()
        whole = text[: text.rindex("\n") + 1]
        steps = [int(row["step"]) for row in csv.DictReader(whole.splitlines()) if row["name"] == "loss"]
        self.assertGreater(len(steps), 100)
        self.assertEqual(steps, list(range(1, len(steps) + 1)))
        if not WHY:
            reader = EventAccumulator(str(self.folder / "run"), size_guidance={"scalars": 0})
            reader.Reload()
            read = [each.step for each in reader.Scalars("loss")]
            self.assertGreater(len(read), 100)
            self.assertEqual(read, list(range(1, len(read) + 1)))

    def test_a_log_that_fails_does_not_end_the_training(self):
        def with_small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        outcome = subprocess.run(
            self.command(2, "--no-save"), capture_output=True, text=True, cwd=self.folder, preexec_fn=with_small_files
        )
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        said = r"metronome: the log ends before step \d+: run/\S+: cannot be written: File too large\n"
        self.assertRegex(outcome.stderr, said)
        self.assertRegex(outcome.stdout, r"(?m)^test    \d")

    def test_a_new_run_overwrites_none(self):
        self.trained(1, "--no-save")
        before = (self.folder / "run" / "scalars.csv").read_bytes()
        outcome = self.train(1, "--no-save")
        self.assertEqual(outcome.returncode, 1)
        self.assertRegex(
            outcome.stderr,
            r"^metronome: run/scalars\.csv: holds \d+ points up to step \d+: "
            r"name another folder for a new run, or resume this one\n$",
        )
        self.assertEqual((self.folder / "run" / "scalars.csv").read_bytes(), before)


if __name__ == "__main__":
    if WHY:
        print(f"skipped: logs read by TensorBoard ({WHY})", flush=True)
    unittest.main()
