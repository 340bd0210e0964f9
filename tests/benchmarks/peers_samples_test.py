"""`./metronome peers --samples` without PyTorch: options, rules, reasons, verdicts, and the table.
The two processes are stand-ins that answer what a test tells them to."""

import argparse
import contextlib
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
sys.path.insert(0, str(BENCHMARKS))

from peers import samples  # noqa: E402
from peers.crew import Peer, Refusal, Unavailable, environment  # noqa: E402
from peers.sample_rules import RULES, rule_of  # noqa: E402


class Options(unittest.TestCase):
    def assert_refused(self, sentence: str, *arguments) -> None:
        command = [sys.executable, "-m", "peers", *arguments]
        said = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=60)
        self.assertEqual((said.stderr, said.stdout), (f"metronome peers: {sentence}\n", ""))
        self.assertEqual(said.returncode, 2)

    def test_what_it_does_not_go_with(self):
        options = "--models mlp,--peers jax,--scale small,--ranks 1,--evaluate,--device cuda,--tf32"
        for option in f"{options},--cache here,--threads 1,--rounds 9".split(","):
            name = option if "cuda" in option else option.partition(" ")[0]
            self.assert_refused(
                f"--samples does not go with {name}, so leave one out: it compares single ops "
                "with PyTorch eager, untimed, in f32 on one thread of a CPU",
                "--samples",
                *option.split(),
            )

    def test_modules_and_a_learner_do_not_go_with_it(self):
        self.assert_refused(
            "--modules does not go with --samples, so leave one out: it trains exported modules "
            "beside PyTorch, in f32 on one CPU",
            *("--samples", "--modules"),
        )
        self.assert_refused(
            "--learner does not go with --samples, so leave one out: it trains one model "
            "beside RLtools, on one thread of a CPU, and compiles both anew",
            *("--samples", "add", "--learner", "."),
        )

    def test_without_torch(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "torch.py").write_text("raise ImportError('no torch')")
            (Path(folder) / "numpy.py").touch()
            command = [sys.executable, "-m", "peers", "--samples", "add"]
            options = {"cwd": BENCHMARKS, "env": {**os.environ, "PYTHONPATH": folder}}
            said = subprocess.run(command, capture_output=True, text=True, timeout=60, **options)
        sentence = "metronome peers: it ended with status 1: ImportError: no torch\n"
        self.assertEqual((said.returncode, said.stdout, said.stderr), (2, "", sentence))


class Rules(unittest.TestCase):
    def test_names_and_patterns(self):
        rules = {
            "normal": "random draws",
            "normal.in_place": "random draws",
            "fft.rfftn": "complex numbers",
            "sparse.mm.reduce": "sparse tensors",
            "linalg.solve_triangular": "linear algebra",
            "nonzero": "sizes by numbers",
            "new_empty": "unwritten memory",
            "jiterator_unary": "a GPU",
        }
        self.assertEqual({op: rule_of(op).name for op in rules}, rules)
        self.assertEqual(set(rules.values()), {rule.name for rule in RULES})

    def test_what_no_rule_leaves_out(self):
        for op in "add", "norm", "normalize", "fft.fftshift", "linalg.vecdot", "nonzero_static":
            self.assertIsNone(rule_of(op))

    def test_an_op_is_named_once(self):
        names = [name for rule in RULES for name in rule.ops]
        self.assertEqual(sorted(names), sorted(set(names)))


class Reasons(unittest.TestCase):
    def test_ops_without_a_counterpart(self):
        error = (
            "/a/0.pt2: cannot be imported: it calls 2 ops without a counterpart here\n"
            "  aten.mode.default  calls.py:21 in forward\n"
            "  aten.renorm.default  calls.py:21 in forward"
        )
        self.assertEqual(
            samples.reason(error), "no counterpart: aten.mode.default, aten.renorm.default"
        )

    def test_what_the_importer_requires(self):
        error = (
            'peers/imported_peer.cc:216: program "/a/5.pt2": aten.cat.default (calls.py:21 in '
            "forward) cannot join the graph\n"
            '  operand 0  f32[8, 5]  "concat"  peers/imported_peer.cc:216\n'
            "  requires   an op that has a counterpart, but it names axis 1 of 1"
        )
        required = "an op that has a counterpart, but it names axis 1 of 1"
        self.assertEqual(samples.reason(error), f"aten.cat.default requires {required}")

    def test_what_an_op_requires(self):
        error = (
            'peers/imported_peer.cc:216: add cannot join the graph as "add"\n'
            "  requires   equal element types, but i64 and i32\n"
            "  way out    cast operand 1 to i64: x.cast(mt::i64)"
        )
        self.assertEqual(
            samples.reason(error), "add requires equal element types, but i64 and i32"
        )

    def test_other_errors(self):
        for error, said in {
            '/a/0.pt2: cannot be imported: "to" has a dtype that is unknown: 1': '"to" has a '
            "dtype that is unknown: 1",
            'it knows no type "float16"': 'it knows no type "float16"',
            'gather {1} "gather" (peers/imported_peer.cc:216): index -5 is out of range 0 to 4': (
                'gather {1} "gather": index -5 is out of range 0 to 4'
            ),
            "": "",
        }.items():
            self.assertEqual(samples.reason(error), said)

    def test_a_long_one_is_cut(self):
        self.assertEqual(samples.reason("x" * 151), "x" * 147 + "...")
        self.assertEqual(samples.reason("x" * 150), "x" * 150)


def results(*each: str) -> list[dict]:
    return [
        {"sample": i, "result": result, "about": f"about {i}"} for i, result in enumerate(each)
    ]


class States(unittest.TestCase):
    def test_states(self):
        for state, each in {
            "agrees": ("agrees", "agrees", "left out"),
            "in part": ("agrees", "refused"),
            "refused": ("refused", "left out"),
            "APART": ("agrees", "APART", "refused"),
            "left out": ("left out",),
        }.items():
            self.assertEqual(samples.state(results(*each)), state)
        self.assertEqual(samples.state([]), "refused")

    def test_the_most_frequent_reason(self):
        rows = results("refused", "refused", "refused", "agrees")
        rows[1]["about"] = rows[2]["about"]
        self.assertEqual(samples.about(rows), "about 2")
        self.assertEqual(samples.about(results("agrees")), "")

    def test_one_that_is_apart_is_told_of_first(self):
        self.assertEqual(samples.about(results("refused", "APART")), "sample 1: about 1")


class Attempts(unittest.TestCase):
    """A process that answers errors, and one that ends."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)
        program = self.folder / "peer"
        program.write_text(
            "#!/bin/sh\necho '{}'\nwhile read -r line; do\n"
            "case $line in *end*) echo 'it burst' >&2; exit 3 ;; esac\n"
            """echo '{"error": "not this one"}'\ndone\n"""
        )
        program.chmod(0o755)
        os.environ["METRONOME_IMPORTED_PEER"] = str(program)
        self.addCleanup(os.environ.pop, "METRONOME_IMPORTED_PEER")
        at = {"device": "cpu", "threads": 1, "tf32": False}
        self.peer = Peer("metronome_import", self.folder, **at)
        self.addCleanup(self.peer.stop)
        self.peer.hear(60)

    def test_an_error_is_an_answer_and_the_process_goes_on(self):
        for _ in range(2):
            self.assertEqual(self.peer.attempt(60, "try"), {"error": "not this one"})

    def test_samples_come_in_one_order(self):
        at = {"device": "cpu", "threads": 1, "tf32": False}
        variables = environment("eager_samples", self.folder, **at)
        self.assertEqual(variables["PYTHONHASHSEED"], "0")

    def test_one_that_ended_is_unavailable(self):
        with self.assertRaises(Unavailable) as raised:
            self.peer.attempt(60, "end")
        self.assertEqual(str(raised.exception), "it ended with status 3: it burst")

    def test_asked_otherwise_an_error_ends_it(self):
        with self.assertRaises(Refusal) as raised:
            self.peer.ask(60, "try")
        self.assertEqual(str(raised.exception), "not this one")
        with self.assertRaises(Unavailable):
            self.peer.attempt(60, "try")


EXPORTED = {"inputs": [["float32", [2]]], "outputs": [["float32", [2]]]}
EXPORTED |= {"elements": 4, "finite": True}
TOLD = {"types": [["float32", [2]], ["float32", [2]]]}


class StandIn:
    """A process that answers from a table, by what is asked and which op is taken up: a dict, an
    exception, or a list of these, one for each sample."""

    answers: dict = {}
    started: list = []
    op = ""
    sample = 0

    def __init__(self, name: str, folder: Path, **options):
        self.started.append(name)

    def hear(self, seconds: float) -> dict:
        return {}

    def attempt(self, seconds: float, do: str, **arguments) -> dict:
        if do == "names":
            return {"names": ["add", "cat", "mode", "randn", "nn.functional.rrelu"]}
        if do == "sample":
            StandIn.op = arguments["op"]
        if do == "export":
            StandIn.sample = arguments["sample"]
        answer = self.answers[do, StandIn.op] if (do, StandIn.op) in self.answers else None
        if answer is None:
            answer = {"sample": {"samples": 2}, "export": EXPORTED, "differentiate": TOLD}.get(
                do, {"apart": None}
            )
        if isinstance(answer, list):
            answer = answer[StandIn.sample]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self) -> None:
        pass


HEADING = (
    "x, 2 cores, load 0.50; values and first gradients of up to 60 samples an op, f32, 1 thread"
)
MISSING = {
    "error": "/a/0.pt2: cannot be imported: it calls an op without a counterpart here\n"
    "  aten.mode.default  calls.py:21 in forward"
}


class Contest(unittest.TestCase):
    def setUp(self):
        StandIn.answers, StandIn.started = {}, []
        self.args = argparse.Namespace(samples=["add"])
        self.report = {"machine": {"cpu": "x", "cores": 2, "load": 0.5}, "results": []}
        self.errors = ""

    def said(self, status: int, seconds: float = 60) -> str:
        out, errors, kept = io.StringIO(), io.StringIO(), []
        end = time.monotonic() + seconds
        keep = lambda report: kept.append(json.dumps(report))  # noqa: E731
        with (
            mock.patch.object(samples, "Peer", StandIn),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(errors),
        ):
            self.assertEqual(samples.contest(self.args, self.report, end, keep), status)
        self.assertTrue(all(json.loads(each)["results"] for each in kept))
        self.errors = errors.getvalue()
        return out.getvalue()

    def table(self, *lines: str) -> str:
        return "\n".join([HEADING, *lines]) + "\n"

    def line(self, op: str, rest: str) -> str:
        return f"{op:<50} {rest}"

    def test_all_ops(self):
        self.args.samples = []
        StandIn.answers["differentiate", "cat"] = [TOLD, MISSING]
        StandIn.answers["differentiate", "mode"] = MISSING
        self.assertEqual(
            self.said(0),
            self.table(
                self.line("add", "  agrees   2 of  2"),
                self.line("cat", " in part   1 of  2  no counterpart: aten.mode.default"),
                self.line("mode", " refused   0 of  2  no counterpart: aten.mode.default"),
                "3 ops: 1 agree, 1 in part, 1 refused, 0 apart",
                "6 samples: 3 agree, 3 refused, 0 apart; besides, 0 left out, as a dropout draws "
                "numbers",
                'left out: 2 ops by the rule "random draws": two libraries draw different numbers',
            ),
        )
        self.assertEqual(StandIn.started, ["eager_samples", "metronome_import"])

    def test_wrong_numbers(self):
        wrong = "output 0: 1 of 2 numbers, number 1 is 3, not 2"
        StandIn.answers["judge", "add"] = [{"apart": None}, {"apart": wrong}]
        self.assertEqual(
            self.said(1),
            self.table(
                self.line("add", f"   APART   1 of  2  sample 1: {wrong}"),
                "1 op: 0 agree, 0 in part, 0 refused, 1 apart",
                "2 samples: 1 agree, 0 refused, 1 apart; besides, 0 left out, as a dropout draws "
                "numbers",
            ),
        )

    def test_a_process_that_died_is_apart_and_started_again(self):
        died = "it ended with status -11: nothing"
        StandIn.answers["differentiate", "add"] = [Unavailable(died), TOLD]
        line = self.line("add", f"   APART   1 of  2  sample 0: {died}")
        self.assertEqual(self.said(1).splitlines()[1], line)
        started = ["eager_samples", "metronome_import", "metronome_import"]
        self.assertEqual(StandIn.started, started)

    def test_a_dropout_is_left_out(self):
        StandIn.answers["export", "add"] = [EXPORTED, {"draws": True}]
        self.assertEqual(
            self.said(0).splitlines()[1:],
            [
                self.line("add", "  agrees   1 of  1"),
                "1 op: 1 agree, 0 in part, 0 refused, 0 apart",
                "1 sample: 1 agree, 0 refused, 0 apart; besides, 1 left out, as a dropout draws "
                "numbers",
            ],
        )

    def test_an_op_that_pytorch_does_not_export_is_given_up(self):
        StandIn.answers["sample", "add"] = {"samples": 9}
        StandIn.answers["export", "add"] = {"error": "ValueError: no"}
        line = self.line("add", " refused   0 of  4  PyTorch does not export it: ValueError: no")
        self.assertEqual(self.said(0).splitlines()[1], line)

    def test_a_failure_of_pytorchs_process_ends_the_op(self):
        StandIn.answers["export", "add"] = [EXPORTED, Unavailable("it took more than 60 s")]
        said = "PyTorch's process failed: it took more than 60 s"
        line = self.line("add", f" in part   1 of  2  {said}")
        self.assertEqual(self.said(0).splitlines()[1], line)

    def test_rows_of_the_file(self):
        self.said(0)
        (row,) = self.report["results"]
        sample = {"result": "agrees", "about": "", "gradients": True, "elements": 4, "finite": True}
        each = [{"sample": i, **sample} for i in range(2)]
        self.assertEqual(row, {"op": "add", "result": "agrees", "about": "", "samples": each})
        StandIn.answers["differentiate", "add"] = MISSING  # it is not asked again
        self.assertEqual(
            self.said(0).splitlines()[1], "1 op: 1 agree, 0 in part, 0 refused, 0 apart"
        )

    def test_no_time(self):
        self.assertEqual(
            self.said(1, seconds=0).splitlines()[1:],
            [
                "0 ops: 0 agree, 0 in part, 0 refused, 0 apart",
                "0 samples: 0 agree, 0 refused, 0 apart; besides, 0 left out, as a dropout draws "
                "numbers",
                "no time was left for 1 op",
            ],
        )

    def test_an_unknown_op(self):
        self.args.samples = ["add", "ad"]
        self.assertEqual(self.said(2), "")
        sentence = 'metronome peers: --samples: torch.testing has no op "ad"\n'
        self.assertEqual(self.errors, sentence)


if __name__ == "__main__":
    unittest.main()
