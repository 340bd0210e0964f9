"""benchmarks/peers without PyTorch and JAX: turns, statistics, and peers that cannot take part.

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
# Built, it lies where tests run; METRONOME_PEER may name another.
PEER = os.environ.pop("METRONOME_PEER", Path("benchmarks/metronome_peer").resolve())
sys.path.insert(0, str(BENCHMARKS))

from peers import rounds, sizes  # noqa: E402
from peers.crew import Peer, Unavailable, environment, joint  # noqa: E402


class Turns(unittest.TestCase):
    def test_each_goes_first_once_and_then_the_direction_turns(self):
        self.assertEqual(
            [rounds.order(["a", "b", "c"], i) for i in range(6)],
            [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]]
            + [["a", "c", "b"], ["b", "a", "c"], ["c", "b", "a"]],
        )

    def test_one_that_drops_out_keeps_what_it_had(self):
        left = {"a": 3, "b": 1}

        def take(name: str):
            left[name] -= 1
            return 1.0 if left[name] >= 0 else None

        self.assertEqual(rounds.interleave("ab", 3, take), {"a": [1.0] * 3, "b": [1.0]})
        self.assertEqual(rounds.interleave("", 3, take), {})

    def test_median_and_mad(self):
        found = rounds.samples([1.0, 2.0, 4.0, 100.0])
        self.assertEqual((found["median"], found["mad"]), (3.0, 1.5))


class Sizes(unittest.TestCase):
    def test_small_is_batch_4_and_widths_by_32_but_at_least_16(self):
        small = sizes.sizes("gated_routing", "small")
        self.assertEqual((small.batch, small.width, small.hidden), (4, 16, 16))
        small = sizes.sizes("mlp", "small")
        self.assertEqual((small.batch, small.width, small.hidden), (4, 32, 64))

    def test_images_sequences_and_tokens(self):
        images = sizes.sizes("convnet", "small")
        self.assertEqual((images.x.shape, images.width, images.hidden), ((4, 3, 16, 16), 8, 64))
        self.assertEqual(images.target.shape, (4, 16))
        steps = sizes.sizes("lstm_seq", "full")
        self.assertEqual((steps.x.shape, steps.target.shape), ((128, 50, 256), (128, 256)))
        tokens = sizes.sizes("transformer", "small")
        self.assertEqual((tokens.x.shape, tokens.x.vocabulary), ((4, 16), 256))
        x, target = sizes.batches(tokens)[0]
        self.assertIs(x, target)
        self.assertTrue(((0 <= x) & (x < 256)).all())

    def test_batches_are_the_same_each_time(self):
        of = sizes.sizes("mlp", "small")
        first, again = sizes.batches(of), sizes.batches(of)
        self.assertEqual(len(first), 50)
        self.assertTrue(all((a == b).all() for a, b in zip(first[49], again[49], strict=True)))
        self.assertFalse((first[0][0] == first[1][0]).all())


class Ranks(unittest.TestCase):
    def test_they_answer_as_one(self):
        each = [{"ms": 2.0, "losses": [1.0, 3.0], "form": "a"}, {"ms": 5.0, "losses": [2.0, 5.0]}]
        self.assertEqual(joint(each), {"ms": 5.0, "losses": [1.5, 4.0], "form": "a"})


class Environment(unittest.TestCase):
    def test_metronome_page_locks_its_batches_by_the_cuda_half_of_libtorch(self):
        def of(name: str, device: str) -> dict:
            return environment(name, Path("/"), device=device, threads=1, tf32=False)

        self.assertEqual(of("metronome", "cuda")["LD_PRELOAD"], "libtorch_cuda.so")
        self.assertNotIn("LD_PRELOAD", of("metronome", "cpu"))
        self.assertNotIn("LD_PRELOAD", of("eager", "cuda"))


class Missing(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)
        self.addCleanup(os.environ.pop, "PYTHONPATH", None)
        os.environ["PYTHONPATH"] = made.name

    def library(self, name: str, text: str) -> None:
        (self.folder / f"{name}.py").write_text(text)

    def refusal(self, seconds: float, name: str = "eager", ranks: int = 1) -> str:
        peer = Peer(name, self.folder, ranks=ranks, device="cpu", threads=1, tf32=False)
        self.addCleanup(peer.stop)
        with self.assertRaises(Unavailable) as raised:
            peer.hear(seconds)
        for each in peer.processes:
            self.assertIsNotNone(each.process.poll(), "it is still running")
        return str(raised.exception)

    def test_a_library_that_is_not_there(self):
        self.library("torch", "raise ImportError('libcudnn.so.9 is not here')")
        self.assertEqual(self.refusal(60), "ImportError: libcudnn.so.9 is not here")

    def test_a_process_that_dies(self):
        text = "import os, sys\nprint('no memory', file=sys.stderr, flush=True)\nos._exit(7)"
        self.library("torch", text)
        self.assertEqual(self.refusal(60), "it ended with status 7: no memory")

    def test_a_process_that_hangs(self):
        self.library("torch", "import time\ntime.sleep(600)")
        self.assertEqual(self.refusal(1), "it took more than 1 s")

    def test_of_several_ranks_one_that_dies_ends_all(self):
        text = "import os, sys, time\nif os.environ['RANK'] == '0': time.sleep(600)\n"
        text += "print('no memory', file=sys.stderr, flush=True)\nos._exit(7)"
        self.library("torch", text)
        self.assertEqual(self.refusal(60, "ddp", 2), "it ended with status 7: no memory")

    def test_several_ranks_are_measured_beside_ddp(self):
        self.library("torch", "raise ImportError('no torch')")
        file = self.folder / "peers.json"
        command = [sys.executable, "-m", "peers", "--models", "mlp", "--ranks", "2"]
        command += ["--json", str(file)]
        said = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=120)
        self.assertEqual(said.returncode, 0, said.stderr)
        result = json.loads(file.read_text())["results"][0]
        self.assertEqual(result["ranks"], 2)
        reasons = {row["peer"]: row["unavailable"] for row in result["peers"]}
        gives = "PyTorch DDP gives the weights, and ImportError: no torch"
        self.assertEqual(reasons, {"ddp": "ImportError: no torch", "metronome": gives})

    def test_the_report_says_who_is_missing_and_why_and_that_is_no_error(self):
        for library in ("torch", "jax"):
            self.library(library, f"raise ImportError('no {library}')")
        file = self.folder / "peers.json"
        command = [sys.executable, "-m", "peers", "--models", "mlp", "--json", str(file)]
        said = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=120)
        self.assertEqual(said.returncode, 0, said.stderr)
        result = json.loads(file.read_text())["results"][0]
        self.assertEqual((result["model"], result["scale"]), ("mlp", "small"))
        reasons = {row["peer"]: row["unavailable"] for row in result["peers"]}
        gives = "PyTorch eager gives the weights, and ImportError: no torch"
        self.assertEqual(
            reasons,
            {
                "eager": "ImportError: no torch",
                "compile": gives,
                "compile_reduce_overhead": "on a CPU it is the default mode",
                "compile_max_autotune": gives,
                "graph": "CUDA graphs need a GPU",
                "jax": gives,
                "metronome": gives,
            },
        )

    def test_metronome_is_a_program_that_is_named(self):
        options = {"device": "cpu", "threads": 1, "tf32": False}
        with self.assertRaisesRegex(Unavailable, "^METRONOME_PEER names no program: ./metronome"):
            Peer("metronome", self.folder, **options)
        os.environ["METRONOME_PEER"] = "/no/program"
        self.addCleanup(os.environ.pop, "METRONOME_PEER")
        with self.assertRaisesRegex(Unavailable, "^/no/program does not start: No such file"):
            Peer("metronome", self.folder, **options)

    def test_a_wrong_argument_is_one_sentence(self):
        for arguments, sentence in {
            "--tf32": "--tf32 needs --device cuda: a CPU has no TF32",
            "--fly": "unrecognized arguments: --fly",
            "--rounds 3": "--rounds: 3 are too few, say 7 or more",
            "--threads 0": "--threads: 0 are too few, say 1 or more",
            "--ranks 0": "--ranks: 0 are too few, say 1 or more",
            "--ranks 2 --device cuda": "--ranks: several run on CPUs only",
            "--json /no/peers.json": "--json: /no/peers.json cannot be written: there is no such "
            "folder, or no right",
        }.items():
            command = [sys.executable, "-m", "peers", *arguments.split()]
            said = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True)
            self.assertEqual(said.returncode, 2)
            self.assertEqual(said.stderr, f"metronome peers: {sentence}\n")


class Metronome(unittest.TestCase):
    """The program that stands for Metronome, asked as the coordinator asks it."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)
        os.environ["METRONOME_PEER"] = str(PEER)
        self.addCleanup(os.environ.pop, "METRONOME_PEER")
        self.use("gated_routing")
        self.start(1)

    def start(self, ranks: int) -> None:
        options = {"device": "cpu", "threads": 1, "tf32": False}
        self.peer = Peer("metronome", self.folder, ranks=ranks, **options)
        self.addCleanup(self.peer.stop)
        self.peer.hear(60)

    def use(self, model: str) -> None:
        self.of = sizes.sizes(model, "small")

    def prepare(self, weights: int) -> dict:
        import numpy

        file = self.folder / "weights.npz"
        draw = numpy.random.default_rng(3)
        small = draw.standard_normal(weights, dtype=numpy.float32) * numpy.float32(0.1)
        Path(f"{file}.f32").write_bytes(small.tobytes())
        fed = [(x,) if target is x else (x, target) for x, target in sizes.batches(self.of)]
        Path(f"{file}.batches").write_bytes(b"".join(a.tobytes() for each in fed for a in each))
        return self.peer.ask(60, "prepare", model=self.of.model, scale="small", file=str(file))

    def test_it_trains_and_goes_back_to_its_first_step(self):
        self.assertEqual(self.prepare(self.of.parameters)["trouble"], {})
        self.assertEqual(self.peer.ask(60, "choose"), {"form": "one walk over bound kernels"})
        losses = self.peer.ask(60, "losses", count=60)["losses"]
        # Fifty batches in turn: the first comes again, and is known by then.
        self.assertLess(losses[50], losses[0])
        self.assertGreater(self.peer.ask(60, "time", steps=3)["ms"], 0)
        self.assertEqual(self.peer.ask(60, "losses", count=60)["losses"], losses)

    def test_two_ranks_train_on_rows_of_their_own(self):
        self.start(2)
        self.assertEqual(self.prepare(self.of.parameters)["trouble"], {})
        losses = self.peer.ask(60, "losses", count=30)["losses"]
        # Each has half of the fifty batches.
        self.assertLess(losses[25], losses[0])
        for kind in ("time", "alone"):
            self.assertGreater(self.peer.ask(60, kind, steps=3)["ms"], 0)
        self.assertEqual(self.peer.ask(60, "losses", count=30)["losses"], losses)

    def test_it_is_fed_tokens_that_are_their_own_target(self):
        self.use("transformer")
        self.assertEqual(self.prepare(self.of.parameters)["trouble"], {})
        losses = self.peer.ask(60, "losses", count=60)["losses"]
        self.assertLess(losses[50], losses[0])

    def test_weights_of_another_model_are_refused(self):
        with self.assertRaisesRegex(Unavailable, r"weights\.npz\.f32 is too short$"):
            self.prepare(self.of.parameters - 1)

    def test_a_weight_too_many_is_refused(self):
        with self.assertRaisesRegex(Unavailable, r"weights\.npz\.f32 is too long$"):
            self.prepare(self.of.parameters + 1)


if __name__ == "__main__":
    if importlib.util.find_spec("numpy") is None:
        print("skipped: the peers' program (this Python has no numpy)")
        sys.exit(0)
    unittest.main()
