"""The guide's program in C is built and run as its first comment says: example_test.py METRONOME PROGRAM."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

METRONOME, PROGRAM = (pathlib.Path(file).resolve() for file in sys.argv[1:3])


class Example(unittest.TestCase):
    def test_commands_of_its_comment(self):
        if shutil.which("cmake") is None:
            print("skipped: an exported policy in C (cmake not installed)", flush=True)
            self.skipTest("cmake not installed")
        with tempfile.TemporaryDirectory() as place:
            (pathlib.Path(place) / "docs").mkdir()
            shutil.copy(PROGRAM, pathlib.Path(place) / "docs")
            comment = PROGRAM.read_text().split("*/")[0]
            commands = [line.removeprefix(" *   ") for line in comment.splitlines() if line.startswith(" *   ")]
            self.assertEqual(len(commands), 4)
            script = "\n".join(commands).replace("./metronome", str(METRONOME))
            done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, cwd=place)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"step 400: loss of the critics \d+\.\d{3}\naction( -?[01]\.\d{3}){3}\n\Z")
            self.assertTrue((pathlib.Path(place) / "policy.safetensors").exists())


if __name__ == "__main__":
    del sys.argv[1:]
    unittest.main()
