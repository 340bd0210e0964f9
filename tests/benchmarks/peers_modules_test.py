"""`./metronome peers --modules` without PyTorch: names, refusals, verdicts, and rows of the table.
The two processes are stand-ins that answer what a test tells them to."""

import argparse
import contextlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
PROGRAMS = Path(__file__).parent.parent / "import" / "programs"
# Built, it lies where tests run; METRONOME_IMPORTED_PEER may name another.
OURS = Path("benchmarks/imported_peer").resolve()
PEER = os.environ.pop("METRONOME_IMPORTED_PEER", OURS)
sys.path.insert(0, str(BENCHMARKS))

from peers import modules  # noqa: E402
from peers.crew import Peer, Unavailable  # noqa: E402
from peers.public_models import MODELS, NAMES  # noqa: E402


def distances(each: float, **others: float) -> dict:
    return {"first_loss": each, **dict.fromkeys(modules.KINDS, each), **others}


class Names(unittest.TestCase):
    def test_three_libraries_and_the_small_ones_first(self):
        self.assertEqual(
            {name.partition("/")[0] for name in NAMES}, {"transformers", "torchvision", "timm"}
        )
        self.assertGreater(len(NAMES), 70)
        self.assertEqual(NAMES[0], "transformers/bert")

    def test_small_images_come_in_larger_batches(self):
        batches = {
            size: MODELS[name].batch
            for name, size in {
                "torchvision/resnet18": 64,
                "torchvision/inception_v3": 128,
                "timm/deit_tiny_patch16_224": 224,
            }.items()
        }
        self.assertEqual(batches, {64: 8, 128: 4, 224: 2})


class Refusals(unittest.TestCase):
    def assert_refused(self, sentence: str, *arguments) -> None:
        command = [sys.executable, "-m", "peers", *arguments]
        said = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=60)
        self.assertEqual((said.stderr, said.stdout), (f"metronome peers: {sentence}\n", ""))
        self.assertEqual(said.returncode, 2)

    def test_an_unknown_name_is_told_of_with_all_known_ones(self):
        known = ", ".join(NAMES)
        self.assert_refused(f'--modules: there is no "bert": say {known}', "--modules", "bert")

    def test_who_can_take_part(self):
        self.assert_refused(
            '--modules: "jax" cannot take part: say eager, compile after --peers',
            *("--modules", "--peers", "jax"),
        )

    def test_what_it_does_not_go_with(self):
        options = "--models mlp,--scale small,--ranks 1,--evaluate,--device cuda,--tf32"
        for option in f"{options},--cache here".split(","):
            name = option if "cuda" in option else option.partition(" ")[0]
            self.assert_refused(
                f"--modules does not go with {name}, so leave one out: it trains exported modules "
                "beside PyTorch, in f32 on one CPU",
                "--modules",
                *option.split(),
            )

    def test_too_few(self):
        self.assert_refused("--rounds: 3 are too few, say 7 or more", "--modules", "--rounds", "3")
        self.assert_refused(
            "--threads: 0 are too few, say 1 or more", "--modules", "--threads", "0"
        )

    def test_its_program_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(Unavailable) as raised:
                Peer("metronome_import", Path(folder), device="cpu", threads=1, tf32=False)
        says = "METRONOME_IMPORTED_PEER names no program: ./metronome peers builds one"
        self.assertEqual(str(raised.exception), says)


class Verdicts(unittest.TestCase):
    def test_twice_as_far_as_pytorchs_own_f32_is_near_enough(self):
        self.assertTrue(modules.agrees_in_f32(distances(2e-6), distances(1e-6)))
        self.assertFalse(modules.agrees_in_f32(distances(2e-6, buffers=3e-6), distances(1e-6)))

    def test_below_the_floor_no_rounding_is_asked_for(self):
        self.assertTrue(modules.agrees_in_f32(distances(1e-6), distances(0)))

    def test_the_first_loss_has_a_limit_of_its_own(self):
        self.assertTrue(modules.agrees_in_f32(distances(1e-7, first_loss=9e-6), distances(1e-7)))
        self.assertFalse(modules.agrees_in_f32(distances(1e-7, first_loss=2e-5), distances(1e-7)))

    def test_where_rounding_decides_f32_shows_nothing(self):
        self.assertFalse(modules.agrees_in_f32(distances(1e-6), distances(1e-6, losses=2e-4)))

    def test_f32(self):
        self.assertEqual(modules.verdict(distances(0), distances(0), None), ("f32", ""))

    def test_f64(self):
        found = distances(1e-7, gradients=3e-5)
        own = distances(1e-7, gradients=1e-5)
        about = "f32: gradients 3.0e-05, PyTorch's own f32 1.0e-05"
        self.assertEqual(modules.verdict(found, own, distances(1e-12)), ("f64", about))
        rough = distances(1e-7, losses=2e-4)
        about_rough = "f32: losses 2.0e-04, PyTorch's own f32 2.0e-04"
        self.assertEqual(modules.verdict(rough, rough, distances(1e-12)), ("f64", about_rough))
        # Steps may multiply a rounding.
        self.assertEqual(
            modules.verdict(found, own, distances(1e-12, losses=3e-8)),
            ("f64", f"{about}; f64: losses 3.0e-08"),
        )
        self.assertEqual(
            modules.verdict(found, own, distances(1e-12, gradients=2e-9)),
            ("APART", f"{about}; f64: gradients 2.0e-09"),
        )
        self.assertEqual(modules.verdict(found, own, distances(1e-12, first_loss=1e-3))[0], "APART")


class StandIn:
    """A process that answers from a table: `answers[name, what]` is a dict, or an error."""

    answers: dict = {}
    asked: list = []

    def __init__(self, name: str, folder: Path, **options):
        self.name = name

    def hear(self, seconds: float) -> dict:
        return {}

    def ask(self, seconds: float, do: str, **arguments) -> dict:
        if do != "time":
            self.asked.append(" ".join([self.name, do, arguments.get("dtype", "")]).strip())
        answer = self.answers[self.name, do]
        answer = answer.get(arguments.get("dtype", arguments.get("form")), answer)
        if "error" in answer:
            raise Unavailable(answer["error"])
        return answer

    def stop(self) -> None:
        pass


class Contest(unittest.TestCase):
    BERT = "transformers/bert"

    def setUp(self):
        StandIn.asked = []
        StandIn.answers = {
            ("eager_module", "make"): {"lr": 0.1, "parameters": 5},
            ("eager_module", "train"): {"apart": distances(1e-7)},
            ("eager_module", "export"): {"inputs": [["i64", [2, 16]]], "export_s": 1.0},
            ("eager_module", "judge"): {"apart": distances(2e-7)},
            ("eager_module", "time"): {"ms": 3.0},
            ("metronome_import", "import"): {"import_s": 0.25, "nodes": 132},
            ("metronome_import", "compile"): {"compile_s": 0.5},
            ("metronome_import", "train"): {"losses": [1.0], "gradients": ["a"]},
            ("metronome_import", "time"): {"ms": 1.5},
        }
        self.args = argparse.Namespace(
            modules=[self.BERT], peers=["eager"], threads=1, rounds=7
        )
        self.report = {"machine": {"cpu": "x", "cores": 2, "load": 0.5}, "results": []}

    def said(self, status: int, seconds: float = 60) -> list[str]:
        out, kept = io.StringIO(), []
        end = time.monotonic() + seconds
        keep = lambda report: kept.append(json.dumps(report))  # noqa: E731
        with mock.patch.object(modules, "Peer", StandIn), contextlib.redirect_stdout(out):
            self.assertEqual(modules.contest(self.args, self.report, end, keep), status)
        self.assertTrue(all(json.loads(each)["results"] for each in kept))
        heading, _, *lines = out.getvalue().splitlines()
        self.assertEqual(
            heading,
            "x, 2 cores, load 0.50; exported modules, f32, 1 thread, 7 rounds; "
            "compared after 20 steps of SGD; times are medians +- spreads",
        )
        return [" ".join(line.split()) for line in lines]

    TIMES = "132 0.25 0.50 1.500 +- 0.000 3.000 +- 0.000 2.00"

    def test_a_row(self):
        self.assertEqual(self.said(0), [f"{self.BERT} f32 {self.TIMES}"])
        (row,) = self.report["results"]
        self.assertEqual((row["result"], row["eager_ratio"], row["f32"]["losses"]), ("f32", 2.0, 2e-7))
        self.assertNotIn("eager_module export f64", StandIn.asked)

    def test_torch_compile_takes_part_if_it_can(self):
        self.args.peers = ["eager", "compile"]
        times = {"eager": {"ms": 3.0}, "compile": {"ms": 2.25}}
        StandIn.answers["eager_module", "time"] = times
        compiled = "2.250 +- 0.000 1.50"
        self.assertEqual(self.said(0), [f"{self.BERT} f32 {self.TIMES} {compiled}"])
        times["compile"] = {"error": "BackendCompilerFailed\nlast"}
        self.report["results"] = []
        why = "torch.compile: BackendCompilerFailed"
        self.assertEqual(self.said(0), [f"{self.BERT} f32 {self.TIMES} - -", why])

    def test_f64_is_asked_for_where_f32_does_not_agree(self):
        near, far = {"apart": distances(1e-12)}, {"apart": distances(1e-7, losses=1e-5)}
        StandIn.answers["eager_module", "judge"] = {"f32": far, "f64": near}
        about = "f32: losses 1.0e-05, PyTorch's own f32 1.0e-07"
        self.assertEqual(self.said(0), [f"{self.BERT} f64 {self.TIMES}", about])
        self.assertIn("eager_module export f64", StandIn.asked)

    def test_one_that_is_apart(self):
        far = {"apart": distances(1e-7, losses=1e-5)}
        StandIn.answers["eager_module", "judge"] = {"f32": far, "f64": far}
        about = "f32: losses 1.0e-05, PyTorch's own f32 1.0e-07; f64: first loss 1.0e-07, "
        about += "losses 1.0e-05, gradients 1.0e-07, parameters 1.0e-07, buffers 1.0e-07"
        self.assertEqual(self.said(1), [f"{self.BERT} APART {self.TIMES}", about])

    def test_one_that_fails_says_why_in_two_lines_and_the_next_goes_on(self):
        StandIn.answers["metronome_import", "compile"] = {"error": "first\nsecond\nthird"}
        self.args.modules = [self.BERT, "timm/dla34"]
        rows = [f"{self.BERT} FAILED", "first", "second", "timm/dla34 FAILED", "first", "second"]
        self.assertEqual(self.said(1), rows)

    def test_what_a_file_has_is_not_measured_again_but_what_had_no_time(self):
        self.assertEqual(self.said(1, seconds=0), [f"{self.BERT} FAILED", "no time was left"])
        self.report["results"].insert(0, {"model": "mlp", "peers": []})
        self.said(0)
        self.assertEqual([row["model"] for row in self.report["results"]], ["mlp", self.BERT])
        StandIn.asked.clear()
        self.assertEqual(self.said(0), [])
        self.assertEqual(StandIn.asked, [])

    def test_without_torch(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "torch.py").write_text("raise ImportError('no torch')")
            command = [sys.executable, "-m", "peers", "--modules", self.BERT]
            options = {"cwd": BENCHMARKS, "env": {**os.environ, "PYTHONPATH": folder}}
            said = subprocess.run(command, capture_output=True, text=True, timeout=60, **options)
        self.assertEqual((said.returncode, said.stderr), (1, ""))
        row = [f"{self.BERT} FAILED", "it ended with status 1: ImportError: no torch"]
        self.assertEqual([" ".join(line.split()) for line in said.stdout.splitlines()[2:]], row)


class Metronome(unittest.TestCase):
    """Its program, asked as the contest asks it. The module's first output is a loss."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)
        os.environ["METRONOME_IMPORTED_PEER"] = str(PEER)
        self.addCleanup(os.environ.pop, "METRONOME_IMPORTED_PEER")
        self.peer = Peer("metronome_import", self.folder, device="cpu", threads=1, tf32=False)
        self.addCleanup(self.peer.stop)
        self.peer.hear(60)

    def import_program(self, numbers: int) -> dict:
        import numpy

        feeds = self.folder / "feeds"
        numpy.linspace(-1, 1, numbers, dtype=numpy.float32).tofile(feeds)
        program = str(PROGRAMS / "no_grad.pt2")
        fed = {"inputs": [["float32", [5, 4]]], "feeds": str(feeds), "lr": 0.01}
        return self.peer.ask(60, "import", program=program, **fed)

    def test_it_imports_compiles_trains_and_is_timed(self):
        self.assertGreater(self.import_program(20)["nodes"], 0)
        self.assertGreater(self.peer.ask(60, "compile")["compile_s"], 0)
        into = self.folder / "result"
        trained = self.peer.ask(60, "train", steps=20, into=str(into))
        self.assertEqual(len(trained["losses"]), 20)
        self.assertLess(trained["losses"][-1], trained["losses"][0])
        self.assertGreater(len(trained["gradients"]), 0)
        self.assertGreater(into.with_suffix(".gradients").stat().st_size, 0)
        self.assertTrue(into.with_suffix(".safetensors").exists())
        self.assertGreater(self.peer.ask(60, "time", steps=3)["ms"], 0)

    def test_too_few_numbers_are_refused(self):
        with self.assertRaisesRegex(Unavailable, r"feeds is too short$"):
            self.import_program(19)


if __name__ == "__main__":
    if importlib.util.find_spec("numpy") is None:
        print("skipped: exported modules among the peers (this Python has no numpy)")
        sys.exit(0)
    unittest.main()
