"""A program of PyTorch's, trained by the process that `./metronome peers --modules` asks."""

import array
import json
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

PEER = Path("benchmarks/imported_peer").resolve()
PROGRAM = Path("tests/import/programs/no_grad.pt2").resolve()  # f32[5, 4] -> a loss, a teacher's answer
TRAINED = {"student/bias": 3, "student/weight": 12}


class ImportedPeer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.process = subprocess.Popen(
            [PEER, '{"threads": 1}'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(self.process.communicate)
        self.assertEqual(json.loads(self.process.stdout.readline()), {})

    def ask(self, do, **arguments):
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def import_with(self, count, program=PROGRAM):
        numbers = array.array("f", (random.Random(1).gauss(0, 1) for _ in range(count)))
        feeds = self.folder / "feeds"
        feeds.write_bytes(numbers.tobytes())
        return self.ask("import", program=str(program), feeds=str(feeds), inputs=[["f32", [5, 4]]], lr=0.1)

    def test_a_program_is_trained(self):
        self.assertGreater(self.import_with(20)["nodes"], 5)
        self.assertGreater(self.ask("compile")["compile_s"], 0)
        into = self.folder / "result"
        trained = self.ask("train", steps=20, into=str(into))
        self.assertEqual(len(trained["losses"]), 20)
        self.assertLess(trained["losses"][-1], trained["losses"][0])
        self.assertEqual(sorted(trained["gradients"]), sorted([*TRAINED, "teacher/bias", "teacher/weight"]))
        gradients = array.array("f", Path(f"{into}.gradients").read_bytes())
        self.assertEqual(len(gradients), 2 * sum(TRAINED.values()))
        self.assertIn(b"student/weight", Path(f"{into}.safetensors").read_bytes())
        self.assertGreater(self.ask("time", steps=3)["ms"], 0)

    def test_what_is_wrong_is_answered(self):
        self.assertEqual(self.import_with(19), {"error": f"{self.folder / 'feeds'} is too short"})
        said = self.import_with(20, self.folder / "none.pt2")["error"]
        self.assertTrue(said.startswith(f"{self.folder / 'none.pt2'}: cannot be imported: "), said)
        self.assertEqual(self.ask("leave"), {"error": 'it knows no "leave"'})


if __name__ == "__main__":
    unittest.main()
