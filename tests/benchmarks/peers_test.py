"""benchmarks/peers without PyTorch and JAX: turns, statistics, and peers that cannot take part; and
the learners' steps, where this Python has the two.

Stand-ins for the libraries lie in a folder of their own, which comes first.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
# Built, it lies where tests run; METRONOME_PEER may name another.
PEER = os.environ.pop("METRONOME_PEER", Path("benchmarks/metronome_peer").resolve())
sys.path.insert(0, str(BENCHMARKS))

from libraries import needs  # noqa: E402
from peers import learner, rounds, sizes  # noqa: E402
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
        self.assertEqual(images.inputs, (sizes.Array((4, 3, 16, 16)), sizes.Array((4, 16))))
        self.assertEqual((images.width, images.hidden), (8, 64))
        steps = sizes.sizes("lstm_seq", "full")
        self.assertEqual(steps.inputs, (sizes.Array((128, 50, 256)), sizes.Array((128, 256))))
        tokens = sizes.sizes("transformer", "small")
        self.assertEqual(tokens.inputs, (sizes.Array((4, 16), 256),))
        (x,) = sizes.batches(tokens)[0]
        self.assertTrue(((0 <= x) & (x < 256)).all())

    def test_learners_are_fed_transitions(self):
        def shapes(model: str, scale: str) -> list:
            return [(str(a.dtype), a.shape) for a in sizes.batches(sizes.sizes(model, scale))[0]]

        state, action, one = (("float32", (100, n)) for n in (11, 3, 1))
        fed = [state, action, one, state, ("int64", (100, 1)), action, action]
        self.assertEqual(shapes("sac", "medium"), fed)
        each = [("float32", (128,))] * 4
        fed = [("float32", (128, 4)), ("int64", (128,)), *each]
        self.assertEqual(shapes("ppo", "full"), fed)

    def test_an_objective_trains_the_weights_below_its_paths(self):
        critics, actor = sizes.sizes("sac", "small").objectives
        names = ["actor.0.bias", "price.log", "target.0.0.bias", "critics.0.0.bias"]
        self.assertEqual(critics.rates_of(names), {"critics.0.0.bias": 1e-3})
        self.assertEqual(actor.rates_of(names), {"actor.0.bias": 3e-4, "price.log": 1e-3})
        (all_of,) = sizes.sizes("transformer", "small").objectives
        self.assertEqual(all_of.rates_of(["out.bias"]), {"out.bias": 1e-4})

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

    def test_learners_take_no_part_on_several_ranks(self):
        file = self.folder / "peers.json"
        command = [sys.executable, "-m", "peers", "--models", "sac", "ppo", "--ranks", "2"]
        command += ["--json", str(file)]
        said = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=120)
        self.assertEqual(said.returncode, 0, said.stderr)
        for result in json.loads(file.read_text())["results"]:
            reasons = {row["peer"]: row["unavailable"] for row in result["peers"]}
            alone = "learners train on one rank here"
            self.assertEqual(reasons, {"ddp": alone, "metronome": alone})

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


class BesideRLtools(unittest.TestCase):
    """--learner, with stand-ins for g++, for what it makes, and for Metronome's program. The first
    takes 2.5 s with seed 0, 3.5 s with seed 1 and so on, the other 2 s."""

    MADE = """#!/bin/sh
echo "rltools $1 on $OPENBLAS_NUM_THREADS" >>"$LOG"
echo 'Time: 2.5s'
echo "${MOVES:-10000} $((2 + $1)).500000 -150.25"
"""
    METRONOME = f"""#!{sys.executable}
import json, os, sys
print("{{}}", flush=True)
for line in sys.stdin:
    seed = json.loads(line)["seed"]
    with open(os.environ["LOG"], "a") as log:
        print("metronome", seed, file=log)
    answer = {{"moves": 10000, "seconds": 2.0, "compile_s": 0.25 + seed, "return": -140.0 - seed}}
    print(json.dumps(answer), flush=True)
"""
    TRAINING = "src/rl/environments/pendulum/sac/cpu/training.h"
    NAME = "name a checkout of github.com/rl-tools/rl_tools"

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name).resolve()
        self.checkout = self.folder / "rl_tools"
        (self.checkout / self.TRAINING).parent.mkdir(parents=True)
        (self.checkout / self.TRAINING).touch()
        self.program("made", self.MADE)
        self.program("metronome_peer", self.METRONOME)
        self.compiler(f"for last; do :; done\ncp '{self.folder}/made' \"$last\"")
        self.log = self.folder / "log"
        self.variables = {
            "PATH": f"{self.folder}{os.pathsep}{os.environ['PATH']}",
            "METRONOME_PEER": str(self.folder / "metronome_peer"),
            "LOG": str(self.log),
            "METRONOME_COMMIT": "a-commit",
        }

    def program(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def compiler(self, does: str) -> None:
        says = "if [ \"$1\" = --version ]; then echo 'g++ (stand-in) 1.0'; exit; fi"
        self.program("g++", f"#!/bin/sh\n{says}\n{does}\n")

    def run_peers(self, *arguments) -> subprocess.CompletedProcess:
        """With three rounds."""
        command = [sys.executable, "-m", "peers", "--learner", self.checkout, "--rounds", "3"]
        options = {"cwd": BENCHMARKS, "env": {**os.environ, **self.variables}, "timeout": 120}
        return subprocess.run([*command, *arguments], capture_output=True, text=True, **options)

    def assert_refused(self, sentence: str, *arguments) -> None:
        said = self.run_peers(*arguments)
        self.assertEqual((said.stderr, said.stdout), (f"metronome peers: {sentence}\n", ""))
        self.assertEqual(said.returncode, 2)

    def assert_refused_unmeasured(self, sentence: str, *arguments) -> None:
        self.assert_refused(sentence, *arguments)
        self.assertFalse(self.log.exists())

    def test_they_take_turns_and_who_goes_first_alternates(self):
        self.assertEqual(self.run_peers().returncode, 0)
        self.assertEqual(
            self.log.read_text().splitlines(),
            ["rltools 0 on 1", "metronome 0", "metronome 1", "rltools 1 on 1"]
            + ["rltools 2 on 1", "metronome 2"],
        )

    def test_the_report(self):
        file = self.folder / "learner.json"
        said = self.run_peers("--json", file)
        self.assertEqual((said.returncode, said.stderr), (0, ""))
        machine, compiler, *rest = said.stdout.splitlines()
        about = "10000 steps on 1 thread, 3 rounds; times are medians +- spreads"
        self.assertRegex(machine, rf"^.+, \d+ cores, load [\d.]+; {re.escape(about)}$")
        flags = (
            "-std=c++17 -Ofast -march=native -DRL_TOOLS_BACKEND_ENABLE_OPENBLAS "
            "-DRL_TOOLS_BACKEND_ENABLE_BLAS -DRL_TOOLS_DISABLE_HDF5 "
            "-DRL_TOOLS_DISABLE_TENSORBOARD -DBENCHMARK"
        )
        self.assertEqual(compiler, f"RLtools: g++ (stand-in) 1.0, {flags}")
        rest[1] = re.sub(r"ready in +[\d.]+ s", "ready in S s", rest[1])
        self.assertEqual(
            rest,
            [
                "sac_pendulum",
                "  RLtools                  3.5000 +- 1.4826 s  ready in S s  "
                "mean returns -150.2 -150.2 -150.2",
                "  Metronome                2.0000 +- 0.0000 s  ready in   0.250 s  "
                "mean returns -140.0 -141.0 -142.0",
                "  RLtools / Metronome      1.7500 +- 0.7413",
            ],
        )
        report = json.loads(file.read_text())
        (result,) = report["results"]
        for stamped in (report, result):
            self.assertEqual(stamped["commit"], "a-commit")
            self.assertRegex(stamped["date"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertLessEqual({"cpu", "cores", "load"}, set(report["machine"]))
        del result["commit"], result["date"]
        theirs, ours = result.pop("peers")
        self.assertGreater(theirs.pop("compile_s"), 0)
        self.assertEqual(ours.pop("compile_s"), 0.25)

        def row(peer: str, label: str, seconds: list, returns: list) -> dict:
            taken = rounds.samples(seconds)
            return {"peer": peer, "label": label, "s": taken, "returns": returns}

        self.assertEqual(theirs, row("rltools", "RLtools", [2.5, 3.5, 4.5], [-150.25] * 3))
        self.assertEqual(ours, row("metronome", "Metronome", [2.0] * 3, [-140.0, -141.0, -142.0]))
        self.assertEqual(result.pop("ratio"), rounds.samples([1.25, 1.75, 2.25]))
        numbers = {"threads": 1, "steps": 10000, "rounds": 3, "rltools_commit": None}
        made = {"compiler": "g++ (stand-in) 1.0", "flags": flags}
        self.assertEqual(result, {"model": "sac_pendulum", "device": "cpu", **numbers, **made})

    def test_the_commit_of_a_checkout_is_named(self):
        (self.checkout / ".git").mkdir()
        asked = f"-C {self.checkout} rev-parse HEAD"
        self.program("git", f"#!/bin/sh\n[ '{asked}' = \"$*\" ] && echo abc")
        said = self.run_peers()
        self.assertRegex(said.stdout.splitlines()[1], r"^RLtools of commit abc: g\+\+")

    def test_what_a_file_has_is_not_measured_again(self):
        file = self.folder / "learner.json"
        other = {"machine": {"cpu": "x", "cores": 1, "load": 0}, "results": [{"model": "mlp"}]}
        file.write_text(json.dumps(other))
        self.assertEqual(self.run_peers("--json", file).returncode, 0)
        results = json.loads(file.read_text())["results"]
        commits = [(result["model"], result["commit"]) for result in results]
        self.assertEqual(commits, [("mlp", "unknown"), ("sac_pendulum", "a-commit")])
        self.log.unlink()
        again = f"{file} has sac_pendulum already: name another file to measure it again\n"
        self.assertEqual(self.run_peers("--json", file).stdout, again)
        self.assertFalse(self.log.exists())

    def test_rltools_is_compiled_from_the_checkout_in_another_folder(self):
        arguments = self.folder / "arguments"
        self.compiler(f"printf '%s\\n' \"$PWD\" \"$@\" >'{arguments}'\nexit 1")
        self.run_peers()
        where, *given = arguments.read_text().splitlines()
        folders = ["-I", str(self.checkout), "-I", f"{self.checkout}/include"]
        files = [f"{where}/rltools.cc", "-lopenblas", "-o", f"{where}/rltools"]
        self.assertEqual(given, [*learner.FLAGS, *folders, *files])
        self.assertFalse(Path(where).exists())
        self.assertEqual([each.name for each in self.checkout.iterdir()], ["src"])

    def test_a_folder_that_is_no_checkout(self):
        (self.checkout / self.TRAINING).unlink()
        self.assert_refused_unmeasured(
            f"--learner: {self.checkout} holds no {self.TRAINING}: {self.NAME}"
        )
        self.checkout = self.folder / "elsewhere"
        self.assert_refused_unmeasured(
            f"--learner: there is no folder {self.checkout} to look for {self.TRAINING} in: "
            f"{self.NAME}"
        )

    def test_without_a_compiler(self):
        self.variables["PATH"] = str(self.checkout)
        self.assert_refused_unmeasured(
            "--learner: g++, which compiles RLtools, is not here: install Debian's g++"
        )

    def test_without_openblas(self):
        self.compiler(
            "echo '/usr/bin/ld: cannot find -lopenblas: No such file or directory' >&2\n"
            "echo 'collect2: error: ld returned 1 exit status' >&2\nexit 1"
        )
        self.assert_refused_unmeasured(
            "RLtools needs OpenBLAS, which g++ does not find: install Debian's libopenblas-dev"
        )

    def test_what_does_not_compile(self):
        errors = {
            "In file included from rltools.cc:1:\na.h:8:10: fatal error: b.h: No such file\n"
            "c.h:1:1: error: no": "a.h:8:10: fatal error: b.h: No such file",
            "rltools.cc: in main:\nrltools.cc:(.text+0x9): undefined reference to x\n"
            "collect2: error: no": "rltools.cc:(.text+0x9): undefined reference to x",
            "Killed": "Killed",
            "": "it says nothing",
        }
        for text, first in errors.items():
            with self.subTest(text):
                self.compiler(f"printf '%s' '{text}' >&2\nexit 1")
                self.assert_refused_unmeasured(
                    f"g++ cannot compile RLtools in {self.checkout}, so name a checkout of another "
                    f"commit: {first}"
                )

    def test_without_metronome(self):
        self.variables["METRONOME_PEER"] = "/no/program"
        self.assert_refused_unmeasured("/no/program does not start: No such file or directory")

    def test_a_learner_that_fails(self):
        self.variables["MOVES"] = "9000"
        self.assert_refused("RLtools: it took 9000 steps, not 10000")
        self.program("made", "#!/bin/sh\necho 'no memory' >&2\nexit 7")
        self.assert_refused("RLtools: it ended with status 7: no memory")
        del self.variables["MOVES"]
        self.program("made", self.MADE)
        refusal = json.dumps({"error": "no seed"})
        self.program("metronome_peer", f"#!/bin/sh\necho {{}}\nread it\necho '{refusal}'")
        self.assert_refused("Metronome: no seed")

    def test_without_time(self):
        sentence = "no time was left: give --limit more seconds"
        self.assert_refused_unmeasured(sentence, "--limit", "0")
        self.program("made", "#!/bin/sh\nsleep 600")
        self.assert_refused(sentence, "--limit", "2")

    def test_what_it_does_not_go_with(self):
        options = "--models mlp,--peers jax,--scale small,--ranks 1,--evaluate,--device cuda,--tf32"
        for option in f"{options},--threads 1,--cache here".split(","):
            name = option if "cuda" in option else option.partition(" ")[0]
            self.assert_refused_unmeasured(
                f"--learner does not go with {name}, so leave one out: it trains one model beside "
                "RLtools, on one thread of a CPU, and compiles both anew",
                *option.split(),
            )
        self.assert_refused_unmeasured("--rounds: 2 are too few, say 3 or more", "--rounds", "2")


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
        fed = sizes.batches(self.of)
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

    def test_a_learner_takes_the_weights_of_its_targets_too(self):
        self.use("sac")
        targets = 2 * (14 * 16 + 16 + 16 * 16 + 16 + 16 + 1)
        self.assertEqual(self.prepare(self.of.parameters + targets)["trouble"], {})
        losses = self.peer.ask(60, "losses", count=60)["losses"]
        self.assertLess(losses[50], losses[0])
        self.assertEqual(self.peer.ask(60, "losses", count=60)["losses"], losses)

    def test_weights_of_another_model_are_refused(self):
        with self.assertRaisesRegex(Unavailable, r"weights\.npz\.f32 is too short$"):
            self.prepare(self.of.parameters - 1)

    def test_a_weight_too_many_is_refused(self):
        with self.assertRaisesRegex(Unavailable, r"weights\.npz\.f32 is too long$"):
            self.prepare(self.of.parameters + 1)


class Learners(unittest.TestCase):
    """Steps that are more than one loss and its gradients."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)

    def losses(self, name: str, model: str) -> list[float]:
        """The first ten, which are the same again."""
        peer = Peer(name, self.folder, device="cpu", threads=1, tf32=False)
        self.addCleanup(peer.stop)
        peer.hear(120)
        at = {"model": model, "scale": "small", "file": str(self.folder / f"{model}.npz")}
        if name == "eager":
            peer.ask(60, "weights", **at)
        self.assertEqual(peer.ask(600, "prepare", **at)["trouble"], {})
        peer.ask(60, "choose")
        losses = peer.ask(60, "losses", count=10)["losses"]
        self.assertEqual(peer.ask(60, "losses", count=10)["losses"], losses)
        return losses

    def assert_agrees(self, name: str) -> None:
        for model in sizes.LEARNERS:
            with self.subTest(model):
                for a, b in zip(self.losses("eager", model), self.losses(name, model), strict=True):
                    self.assertLess(abs(a - b) / abs(b), 1e-4)

    @needs("torch")
    def test_compiled_steps_agree_with_eager_ones(self):
        self.assert_agrees("compile")

    @needs("torch", "jax")
    def test_steps_of_jax_agree_with_eager_ones(self):
        self.assert_agrees("jax")

    @needs("torch")
    def test_weights_stand_in_the_order_of_metronomes_declarations(self):
        from peers import torch_models

        for model, order in {
            "sac": ["actor", "price", "target", "critics"],
            "ppo": ["critic", "actor"],
        }.items():
            names = torch_models.make(sizes.sizes(model, "small")).state_dict()
            self.assertEqual(list(dict.fromkeys(name.split(".")[0] for name in names)), order)

    @needs("torch")
    def test_targets_begin_as_the_critics_and_follow_them(self):
        import torch
        from peers.torch_steps import Eager, below

        def all_below(path: str) -> torch.Tensor:
            return torch.cat([weight.detach().flatten() for weight in below(peer.model, path)])

        of, peer = sizes.sizes("sac", "small"), Eager("cpu", 1, False)
        peer.prepare(of, peer.weights(of))
        before, price = all_below("target."), peer.model.price.log.item()
        self.assertTrue(torch.equal(before, all_below("critics.")))
        peer.step(0)
        moved = before + 0.005 * (all_below("critics.") - before)
        self.assertFalse(torch.equal(before, moved))
        torch.testing.assert_close(all_below("target."), moved)
        # Adam's first step goes by the learning rate.
        self.assertAlmostEqual(abs(peer.model.price.log.item() - price), 1e-3, places=6)
        peer.restore()
        self.assertTrue(torch.equal(before, all_below("target.")))


if __name__ == "__main__":
    if importlib.util.find_spec("numpy") is None:
        print("skipped: the peers' program (this Python has no numpy)")
        sys.exit(0)
    unittest.main()
