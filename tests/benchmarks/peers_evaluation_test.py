"""Inference among the peers: `--evaluate` of benchmarks/peers, without the libraries that it
measures; and their answers, where this Python has them.

Stand-ins for the libraries lie in a folder of their own, which comes first.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from libraries import needs  # noqa: E402
from peers import evaluation, sizes  # noqa: E402
from peers.crew import Peer, Unavailable  # noqa: E402

OPTIONS = {"device": "cpu", "threads": 1, "tf32": False}


class InFolder(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)

    def run_peers(self, *arguments) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "peers", *arguments]
        options = {"cwd": BENCHMARKS, "capture_output": True, "text": True, "timeout": 120}
        return subprocess.run(command, **options)


class Questions(unittest.TestCase):
    def test_they_are_the_first_inputs_with_so_many_rows(self):
        def asked(model: str, rows: int) -> list:
            of = evaluation.questions(sizes.sizes(model, "small"), rows)
            return [len(of), of[0].shape, str(of[0].dtype)]

        self.assertEqual(asked("mlp", 1), [50, (1, 32), "float32"])
        self.assertEqual(asked("transformer", 4), [50, (4, 16), "int64"])
        self.assertEqual(asked("sac", 2), [50, (2, 11), "float32"])

    def test_one_row_and_the_models_batch(self):
        self.assertEqual(evaluation.row_counts("transformer", "full"), (1, 32))


class Answers(InFolder):
    def read(self, numbers: list[float]):
        import numpy

        file = self.folder / "answers"
        numpy.array(numbers, numpy.float32).tofile(file)
        return evaluation.read_answers(file)

    def test_they_differ_as_the_one_does_that_differs_most(self):
        expected = [1.0, 2.0, 1.0, 4.0, -8.0, 1.0, 1.0, 1.0]
        answers = [1.0, 2.0, 1.5, 4.0, -8.0, 2.0, 1.0, 1.0]
        self.assertEqual(evaluation.difference(self.read(answers), self.read(expected)), 0.125)

    def test_what_is_no_number_does_not_agree(self):
        answers = self.read([float("nan")] + [1.0] * 7)
        self.assertFalse(evaluation.difference(answers, self.read([1.0] * 8)) <= 1)


class Command(InFolder):
    def setUp(self):
        super().setUp()
        self.addCleanup(os.environ.pop, "PYTHONPATH", None)
        os.environ["PYTHONPATH"] = str(self.folder)
        for library in ("torch", "jax", "onnx", "onnxruntime"):
            (self.folder / f"{library}.py").write_text(f"raise ImportError('no {library}')")

    def results(self, *arguments) -> list[dict]:
        file = self.folder / "peers.json"
        said = self.run_peers("--models", "mlp", "--json", file, *arguments)
        self.assertEqual(said.returncode, 0, said.stderr)
        return json.loads(file.read_text())["results"]

    def test_what_it_does_not_go_with(self):
        for option in ("--ranks 2", "--device cuda", "--tf32"):
            said = self.run_peers("--evaluate", *option.split())
            self.assertEqual(said.returncode, 2)
            self.assertEqual(
                said.stderr,
                f"metronome peers: --evaluate does not go with {option}, so leave one out: "
                "inference is measured on CPUs only, on one rank\n",
            )

    def test_who_takes_part(self):
        peers = [row["peer"] for row in self.results("--evaluate")[0]["peers"]]
        onnx = ["onnxruntime", "onnxruntime_c"]
        expected = ["eager", "compile", "compile_max_autotune", "jax", *onnx, "metronome"]
        self.assertEqual(peers, expected)
        trained = [row["peer"] for row in self.results()[-1]["peers"]]
        self.assertFalse(set(onnx) & set(trained))

    def test_results_tell_training_and_inference_and_their_rows_apart(self):
        def kinds(results: list[dict]) -> list:
            return [(result.get("evaluate"), result.get("rows")) for result in results]

        training, inference = (None, None), [(True, 1), (True, 4)]
        self.assertEqual(kinds(self.results("--evaluate")), inference)
        self.assertEqual(kinds(self.results("--evaluate")), inference)
        self.assertEqual(kinds(self.results()), [*inference, training])
        # What is lost is measured again, alone.
        file = self.folder / "peers.json"
        report = json.loads(file.read_text())
        del report["results"][0]
        file.write_text(json.dumps(report))
        self.assertEqual(kinds(self.results("--evaluate")), [(True, 4), training, (True, 1)])

    def test_a_package_that_is_missing_is_named_with_the_way_out(self):
        way_out = f"install it by {sys.executable} -m pip install onnx onnxruntime"
        for name in ("onnxruntime", "onnxruntime_c"):
            peer = Peer(name, self.folder, evaluate=True, **OPTIONS)
            self.addCleanup(peer.stop)
            with self.assertRaises(Unavailable) as raised:
                peer.hear(60)
            self.assertEqual(str(raised.exception), f"ImportError: no onnx: {way_out}")


class Agreement(InFolder):
    ROWS = 3

    def answers(self, name: str, model: str):
        peer = Peer(name, self.folder, evaluate=True, **OPTIONS)
        self.addCleanup(peer.stop)
        peer.hear(120)
        at = {"model": model, "scale": "small", "file": str(self.folder / f"{model}.npz")}
        at["rows"] = self.ROWS
        if name == "eager":
            peer.ask(60, "weights", **at)
        self.assertEqual(peer.ask(600, "prepare", **at)["trouble"], {})
        peer.ask(60, "choose")
        self.assertGreater(peer.ask(60, "time", steps=3)["ms"], 0)
        into = self.folder / f"{name}-{model}.answers"
        peer.ask(60, "outputs", count=evaluation.CHECKED_ANSWERS, into=str(into))
        peer.stop()
        return evaluation.read_answers(into)

    def assert_agrees(self, name: str) -> None:
        for model in ("mlp", "conv_autoenc", "gru_seq", "transformer", "sac"):
            with self.subTest(model):
                expected, found = self.answers("eager", model), self.answers(name, model)
                self.assertEqual(found.shape, expected.shape)
                self.assertLess(evaluation.difference(found, expected), 1e-5)

    @needs("torch", "jax")
    def test_jax_answers_as_eager_does(self):
        self.assert_agrees("jax")

    @needs("torch", "onnx", "onnxruntime")
    def test_onnx_runtime_answers_as_eager_does(self):
        self.assert_agrees("onnxruntime")

    @needs("torch", "onnx", "onnxruntime")
    def test_onnx_runtime_answers_a_c_program_as_eager_does(self):
        self.assert_agrees("onnxruntime_c")


if __name__ == "__main__":
    if importlib.util.find_spec("numpy") is None:
        print("skipped: inference among the peers (this Python has no numpy)")
        sys.exit(0)
    unittest.main()
