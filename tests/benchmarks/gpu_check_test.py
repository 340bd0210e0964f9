"""The GPU check's runner, results and page, with commands of a few lines in place of its programs."""

import contextlib
import io
import json
import pathlib
import sys
import tarfile
import tempfile
import time
import unittest
from unittest import mock

CHECK = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "gpu_check"
sys.path[:0] = [str(CHECK), str(CHECK.parent)]
import caches  # noqa: E402
import check  # noqa: E402
import page  # noqa: E402
import pieces  # noqa: E402
import plan  # noqa: E402
import results  # noqa: E402
import runner  # noqa: E402
import verdict  # noqa: E402

WHO = {
    "bundle": "b1",
    "commit": "c1",
    "device": "a GPU",
    "machine": {"cpu": "a processor", "cores": 2},
}
STAMP = {"bundle": "b1", "commit": "c1", "device": "a GPU", "date": "2026-11-30T07:00:00Z"}


def piece(name, code="print('done')", part="conformance", **more):
    more = {"about": 0.1, "limit": 20, "kind": name} | more
    return pieces.Piece(name, part, f"what {name} does", [sys.executable, "-c", code], **more)


class Folders(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = pathlib.Path(folder.name).resolve()
        self.work, self.folder = self.place / "work", self.place / "results"
        self.work.mkdir()
        self.said = []

    def run_pieces(self, *of, seconds=30, who=WHO, earlier=None, clock=time.monotonic):
        found = results.Results(self.folder, who, earlier)
        kept = caches.Caches(self.place / "bundle", self.work, found.folder)
        end = clock() + seconds
        runner.Runner(list(of), found, kept, self.work, self.place, end, self.said.append,
                      clock=clock).run()
        found.out.close()
        return found

    def states(self, found):
        return {name: (r["status"], r["detail"]) for name, r in found.records.items()}

    def refused(self, *arguments):
        with self.assertRaises(results.Refused) as caught:
            results.Results(*arguments)
        return str(caught.exception)


class Runs(Folders):
    def test_each_end_of_a_piece_is_told_apart_and_poisons_no_other(self):
        found = self.run_pieces(
            piece("good"),
            piece("bad", "print('FAILED  mlp: other bits\\n0 passed, 1 failed'); exit(1)"),
            piece("crash", "import os; print('before', flush=True); os.kill(os.getpid(), 11)"),
            piece("hang", "import time; print('before', flush=True); time.sleep(60)", limit=3),
            piece("stubborn", "import signal, time; signal.signal(15, signal.SIG_IGN); "
                  "print('deaf', flush=True); time.sleep(60)", limit=3),
            piece("none", "print('no NVIDIA driver'); exit(3)"),
            piece("refused", "print('Error: Device not supported'); exit(1)",
                  refusals=("Device not supported",)),
            piece("toolless", needs="no-such-tool"),
            piece("last"),
        )
        self.assertEqual(self.states(found), {
            "good": ("passed", "done"),
            "bad": ("failed", "FAILED  mlp: other bits"),
            "crash": ("failed", "ended by SIGSEGV; its last line: before"),
            "hang": ("failed", "hangs: it took more than 3 s; its last line: before"),
            "stubborn": ("failed", "hangs: it took more than 3 s; its last line: deaf"),
            "none": ("unavailable", "no NVIDIA driver"),
            "refused": ("unavailable", "Error: Device not supported"),
            "toolless": ("unavailable", "there is no no-such-tool here"),
            "last": ("passed", "done"),
        })

    def test_what_a_crashed_program_had_found_is_kept(self):
        file = self.work / "crash.json"
        code = f"open({str(file)!r}, 'w').write('{{\"check\": 1}}\\n{{\"che'); import os; os.abort()"
        found = self.run_pieces(piece("crash", code, file=file))
        self.assertEqual(found.records["crash"]["results"], [{"check": 1}])

    def test_the_last_lines_of_a_piece_that_is_quoted_are_kept(self):
        found = self.run_pieces(piece("a", "print('one\\ntwo')", quoted=True), piece("b"))
        self.assertEqual(found.records["a"]["said"], ["one", "two"])
        self.assertNotIn("said", found.records["b"])

    def test_what_does_not_fit_is_not_begun_and_the_figures_have_their_time(self):
        found = self.run_pieces(
            piece("long", about=25),
            piece("figures", part="compare-small", about=10, kept=True),
            piece("short", about=5),
            seconds=30,
        )
        self.assertEqual(found.records["long"]["status"], "passed")  # behind the figures
        begun = [line["begun"] for line in results.lines_of(found.file) if "begun" in line]
        self.assertEqual(begun, ["figures", "long", "short"])
        found = self.run_pieces(piece("day", about=86400), seconds=7, clock=lambda: 0)
        self.assertEqual(found.records["day"]["detail"],
                         "not begun: it takes about 86400 s, 7 s are left")

    def test_an_estimate_follows_what_others_of_its_kind_took(self):
        done = self.work / "done"  # the first piece takes 2.4 s of a clock that it moves
        found = self.run_pieces(
            piece("first", f"open({str(done)!r}, 'w')", kind="k"),
            piece("second", kind="k"),
            seconds=4.4,
            clock=lambda: 2.4 if done.exists() else 0,
        )
        self.assertEqual(self.states(found)["second"],
                         ("unfinished", "not begun: it takes about 3 s, 2 s are left"))

    def test_the_end_of_the_time_is_no_hang(self):
        found = self.run_pieces(piece("slow", "import time; time.sleep(60)"), seconds=1)
        self.assertEqual(self.states(found),
                         {"slow": ("unfinished", "the time was over; its last line: it said nothing")})

    def test_a_run_that_is_ended_from_outside_ends_what_it_runs_and_keeps_what_that_found(self):
        file = self.work / "slow.json"
        code = f"open({str(file)!r}, 'w').write('{{\"check\": 1}}\\n'); import time; time.sleep(60)"

        def ended(_):
            while not file.exists() or not file.stat().st_size:
                time.sleep(0.01)
            raise SystemExit(143)

        with mock.patch.object(runner.Runner, "wait_for_one", ended):
            with self.assertRaises(SystemExit):
                self.run_pieces(piece("slow", code, file=file))
        record = results.lines_of(self.folder / results.NAME)[-1]
        self.assertEqual((record["status"], record["results"]), ("unfinished", [{"check": 1}]))

    def test_a_gate_speaks_for_those_behind_it(self):
        found = self.run_pieces(
            piece("device", "print('no GPU'); exit(3)", part="device"),
            *(piece(name, gate="device") for name in ("a", "b")),
        )
        self.assertEqual(self.states(found)["b"], ("unavailable", "no GPU"))
        self.assertIn("2 of conformance", self.said[-1])

    @mock.patch("os.cpu_count", lambda: 4)
    def test_pieces_that_time_nothing_run_together(self):
        code = (
            f"import pathlib, time; place = pathlib.Path({str(self.work)!r}); "
            "(place / f'{NAME}.begun').touch()\n"
            "while len([*place.glob('*.begun')]) < 4: time.sleep(0.01)"
        )
        found = self.run_pieces(
            *(piece(name, code.replace("{NAME}", name), together=True) for name in "abcd"))
        self.assertEqual(set(self.states(found).values()), {("passed", "it said nothing")})


class Log(Folders):
    def logged(self, *said):
        found = results.Results(self.folder, WHO)
        for name, text in said:
            found.log(name, text)
        found.out.close()
        return (self.folder / "gpu-check.log").read_text()

    @mock.patch.object(results, "MOST_OF_A_PIECE", 42)
    def test_of_a_piece_that_says_much_the_middle_is_left_out(self):
        text = "".join(f"line {i}\n" for i in range(10))
        self.assertEqual(self.logged(("short", "a line"), ("long", text)), """\
==== short
a line
==== long
line 0
line 1
line 2

[... 28 bytes are left out ...]
line 7
line 8
line 9

""")

    @mock.patch.object(results, "MOST_LOGGED", 20_000)
    def test_the_log_has_a_place_for_each_piece_and_does_not_become_larger(self):
        names = [f"piece{i}" for i in range(30)]
        text = self.logged(*((name, 100_000 * "x") for name in names))
        self.assertLessEqual(len(text), 20_000)
        self.assertEqual([line[5:] for line in text.splitlines() if line.startswith("==== ")], names)
        for _ in range(20):
            text = self.logged(*((name, 100_000 * "x") for name in names))
        self.assertLessEqual(len(text), 20_000)


class Calls(Folders):
    def test_the_next_call_goes_on(self):
        self.run_pieces(piece("a"), piece("b", "exit(1)"), piece("c", about=900))
        with (self.folder / results.NAME).open("a") as out:
            out.write('{"piece": "a", "status": "fai')  # killed in the middle of a line
        found = self.run_pieces(piece("a", "exit(1)"), piece("b"), piece("c"))
        self.assertEqual([self.states(found)[name][0] for name in "abc"],
                         ["passed", "failed", "passed"])
        lines = (self.folder / results.NAME).read_text().splitlines()
        self.assertEqual(sum(line.startswith('{"begun": "a", ') for line in lines), 1)

    def test_what_killed_a_run_comes_last_in_the_next(self):
        self.run_pieces(piece("a"))
        with (self.folder / results.NAME).open("a") as out:
            out.write(json.dumps({"begun": "b", **STAMP}) + "\n")
        found = self.run_pieces(piece("b"), piece("c"))
        begun = [line["begun"] for line in results.lines_of(found.file) if "begun" in line]
        self.assertEqual(begun, ["a", "b", "c", "b"])

    def compiles(self, name, file, size):
        code = f"import pathlib; file = pathlib.Path({str(self.work)!r}, {file!r}); "
        code += f"file.parent.mkdir(parents=True, exist_ok=True); file.write_text({size} * 'x')"
        return piece(name, code)

    def held(self):
        with tarfile.open(self.folder / "caches.tar") as tar:
            return tar.getnames()

    def test_what_was_compiled_and_choices_go_from_call_to_call(self):
        (self.place / "bundle" / "kernels").mkdir(parents=True)
        (self.place / "bundle" / "kernels" / "ahead.cubin").write_text("ahead")
        self.run_pieces(
            self.compiles("a", "cache/kernels/new.cubin", 3),
            self.compiles("p", "peers/small-ieee/mlp/compile/triton/kernel.so", 3),
            self.compiles("op", "cache-of-ops/kernels/of-one.cubin", 3),
        )
        self.assertEqual(self.held(), ["cache/kernels/new.cubin",
                                       "peers/small-ieee/mlp/compile/triton/kernel.so"])
        (self.folder / "tuning.json").write_text("{}")
        before = sorted(file.name for file in self.folder.iterdir())
        self.work, first = self.place / "other-work", self.folder
        self.folder = self.place / "other-results"
        self.work.mkdir()
        found = self.run_pieces(piece("a"), earlier=first)
        self.assertEqual(found.records["a"]["status"], "passed")
        there = sorted(str(file.relative_to(self.work)) for file in self.work.rglob("*.*"))
        self.assertEqual(there, ["cache/kernels/ahead.cubin", "cache/kernels/new.cubin",
                                 "peers/small-ieee/mlp/compile/triton/kernel.so"])
        self.assertEqual(sorted(file.name for file in self.folder.iterdir()), before)
        with (self.folder / "caches.tar").open("r+b") as tar:  # cut off in the middle
            tar.truncate(1700)
        self.work = self.place / "third-work"
        self.work.mkdir()
        self.run_pieces(piece("b"))
        self.assertEqual(self.held(), ["cache/kernels/new.cubin"])

    @mock.patch.object(caches, "MOST_BYTES", 7 * caches.MIB // 2)
    def test_what_would_make_the_archive_too_large_is_left_out_and_that_is_said_once(self):
        self.run_pieces(
            self.compiles("a", "cache/kernels/a.cubin", 2 * caches.MIB),
            self.compiles("b", "peers/b.so", 2 * caches.MIB),
            self.compiles("c", "peers/c.so", 3 * caches.MIB),
            self.compiles("d", "peers/d.so", caches.MIB),
        )
        self.assertEqual(self.held(), ["cache/kernels/a.cubin", "peers/d.so"])
        self.assertEqual([line for line in self.said if "caches" in line], [
            "caches.tar may have 3.5 MiB: 2.0 MiB that were compiled just now are left out, as may be "
            "later ones"])

    def test_an_archive_writes_nothing_outside_of_its_folders(self):
        self.folder.mkdir()
        with tarfile.open(self.folder / "caches.tar", "w") as tar:
            for name in ("../outside", "peers/../../outside", "/tmp/outside", "elsewhere/file"):
                tar.addfile(tarfile.TarInfo(name))
        self.run_pieces(piece("a"))
        self.assertEqual([str(file) for file in self.place.rglob("*") if file.name in ("outside", "file")], [])


class Refusals(Folders):
    def test_a_folder_of_another_version_is_left_as_it_is(self):
        file = self.run_pieces(piece("a")).file
        before = file.read_bytes()
        self.assertEqual(
            self.refused(self.folder, WHO | {"bundle": "b2", "commit": "c2"}),
            f"{file} is of bundle b1 (commit c1), and this is b2 (commit c2): name another folder "
            "with --results",
        )
        self.assertEqual(
            self.refused(self.folder, WHO | {"device": "another GPU"}),
            f"{file} is of the device a GPU, and here is another GPU: name another folder with "
            "--results",
        )
        self.assertEqual(file.read_bytes(), before)
        file.write_text("x\n")
        self.assertEqual(
            self.refused(self.folder, WHO),
            f"{file} is not of this check (format 1): name another folder with --results",
        )
        self.assertEqual(file.read_text(), "x\n")

    def test_every_line_is_stamped(self):
        with mock.patch.object(results, "now", lambda: STAMP["date"]):
            file = self.run_pieces(piece("a")).file
        for line in results.lines_of(file):
            self.assertEqual({key: line.get(key) for key in STAMP}, STAMP)

    def test_a_line_of_another_bundle_or_device_or_without_a_stamp_is_refused(self):
        file = self.run_pieces(piece("a")).file
        before = file.read_text()
        elsewhere = "name another folder with --results"
        for stamp, message in (
            (STAMP | {"bundle": "b2", "commit": "c2"},
             "is of bundle b2 (commit c2), and this is b1 (commit c1)"),
            (STAMP | {"device": "another GPU"}, "is of the device another GPU, and here is a GPU"),
            ({}, "has no stamp (it lacks bundle, commit, device, date)"),
            ({key: STAMP[key] for key in STAMP if key != "date"}, "has no stamp (it lacks date)"),
        ):
            for key in ("piece", "begun"):
                file.write_text(before + json.dumps({key: "b", "status": "passed", **stamp}) + "\n")
                refused = f"{file}: the line of b {message}: {elsewhere}"
                self.assertEqual(self.refused(self.folder, WHO), refused)
                self.assertEqual(self.refused(self.place / "new", WHO, self.folder), refused)
                self.assertFalse((self.place / "new" / results.NAME).exists())
        head = {"gpu_check": results.FORMAT, **WHO}
        file.write_text(json.dumps(head) + "\n")
        self.assertEqual(self.refused(self.folder, WHO),
                         f"{file} has no stamp (it lacks date): {elsewhere}")

    def test_a_folder_that_cannot_be_written(self):
        file = self.place / "file"
        file.touch()
        self.assertEqual(
            self.refused(file / "x", WHO),
            f"{file}/x cannot be written (Not a directory): say --results FOLDER",
        )

    def test_two_runs_at_once(self):
        first = results.Results(self.folder, WHO)
        self.assertEqual(
            self.refused(self.folder, WHO),
            f"{first.file} is written by another run at this moment",
        )
        first.out.close()

    def test_what_is_taken_up_must_be_there_and_must_not_replace_anything(self):
        self.assertEqual(
            self.refused(self.folder, WHO, self.place / "none"),
            f"--from {self.place}/none: there is no gpu-check.jsonl in it",
        )
        file = self.run_pieces(piece("a")).file
        self.assertEqual(
            self.refused(self.folder, WHO, self.folder),
            f"{file} is there already: leave out --from, or name an empty folder",
        )

    def test_arguments(self):
        parts = ", ".join([*pieces.PARTS, *pieces.SHORT])
        for arguments, message in {
            ("speed",): f'there is no part "speed": say {parts}',
            ("--fast",): "unrecognized arguments: --fast",
            ("--limit", "soon"): 'argument --limit: "soon" is no number of seconds above zero',
            ("--limit", "-1"): 'argument --limit: "-1" is no number of seconds above zero',
            ("--host", "x"): "--host needs --dry: it measures nothing",
            ("--plan", "peers"): "--plan is of all parts: name none",
        }.items():
            said = io.StringIO()
            with mock.patch.object(sys, "argv", ["run.sh", *arguments]):
                with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as end:
                    check.arguments()
            self.assertEqual((end.exception.code, said.getvalue()), (2, f"run.sh: {message}\n"))

    def test_a_short_call_takes_less_than_six_minutes(self):
        for arguments, limit in {
            (): 525, ("peers",): 525, ("short-a",): 350, ("device", "short-d"): 350,
            ("short-a", "--limit", "100"): 100,
        }.items():
            with mock.patch.object(sys, "argv", ["run.sh", *arguments]):
                self.assertEqual(check.arguments().limit, limit)
        self.assertLess(check.SHORT_LIMIT, 60 * plan.SHORT_MINUTES)


def samples(median):
    return {"median": median, "mad": median / 100, "samples": [median]}


COMPARED = {
    "model": "mlp",
    "scale": "small",
    "eager_ms": samples(0.5),
    "eager_deterministic_ms": samples(0.8),
    "planned_ms": samples(0.05),
    "eager_fed_ms": samples(0.6),
    "planned_fed_ms": samples(0.06),
    "ratio": 10,
    "verdict": "faster",
    "floor_ms": 0.01,
    "over_floor": 5,
    "host_us": samples(3),
    "graph_nodes": 40,
    "kernels_planned": 40,
    "forms": ["one graph, 1 stream: 50.0 us a step, kept", "uncaptured: 90.0 us a step"],
    "agree": True,
}
MODELS = [
    *("mlp", "residual_tower", "gated_routing", "iterative_refine", "feedback_fixed"),
    *("feedback_adaptive", "routed_sparse", "convnet", "conv_autoenc", "gru_seq", "lstm_seq"),
    "transformer",
]
PEERS = [model for model in MODELS if model not in ("feedback_adaptive", "routed_sparse")]


def whole_run(ops=80):
    """All pieces, of as many ops as there may be."""
    places = pieces.Places(
        bundle=pathlib.Path("bundle"),
        programs=pathlib.Path("bundle/bin"),
        work=pathlib.Path("work"),
        tuning=pathlib.Path("tuning.json"),
        python="python3",
        libraries="lib",
        ops=["group", *(f"op{i}" for i in range(1, ops))],
        models=MODELS,
    )
    return pieces.all_pieces(places)


PLAN = """\
device            1 pieces   0.0 min  the GPU, its libraries, and bytes that are copied there and \
back
probe             4 pieces   0.1 min  the driver: conditional nodes, libraries in them, mapped \
numbers, times of launches
conformance      80 pieces   1.1 min  kernels of group against libtorch's
models-small     26 pieces   4.5 min  mlp, small: replay, stepwise and eager steps; masked, one \
stream
compare-small    12 pieces   0.8 min  mlp, small: planned steps beside libtorch's eager ones, and \
their floor
profiles         24 pieces   1.2 min  mlp, small: a step kernel by kernel
compare-full     12 pieces   3.7 min  mlp, full: planned steps beside libtorch's eager ones, and \
their floor
peers            20 pieces   8.3 min  mlp, small, IEEE fp32: PyTorch eager and captured, Metronome
models-full      12 pieces   5.0 min  mlp, full: replay, stepwise and eager steps
training          3 pieces   1.6 min  digits: a whole training beside libtorch's eager one
allocations      12 pieces   2.4 min  mlp: CUDA calls during replay
engines           1 pieces   1.0 min  engines of convolutions, those too that steps are not offered: \
which would be faster
peers-compiled   20 pieces  25.0 min  mlp, small, IEEE fp32: torch.compile, its reduce-overhead, JAX
sanitizers      240 pieces   7.5 min  compute-sanitizer (memcheck) over the kernels of group
peers-autotuned  20 pieces  25.0 min  mlp, small, IEEE fp32: torch.compile's max-autotune
peers-tf32       10 pieces  21.7 min  mlp, full, TF32: PyTorch (eager, compiled, captured), JAX, \
Metronome
short-a          49 pieces  11.5 min  in calls of 6 min, from compare-small-mlp on
short-b          21 pieces  17.5 min  in calls of 6 min, from peers-full-convnet on
short-c          18 pieces   5.0 min  in calls of 6 min, from train-digits on
short-d         261 pieces  41.7 min  in calls of 6 min, from peers-tf32-full-mlp on
reckoned: the small models' figures after 3.0 min, all up to the peers after 17.7, everything \
after 108.9
"""


class Plan(unittest.TestCase):
    def test_what_must_be_there_fits_into_26_minutes_and_small_figures_into_the_first_call(self):
        run = whole_run()
        self.assertLess(plan.needed_minutes(run), 26)
        self.assertLess(60 * plan.reckoned(plan.until("compare-small", run)), check.LIMIT)
        small = [each.name for each in plan.until("compare-small", run)]
        self.assertEqual(sorted(small), sorted(
            ["device", "probe-graphs", "probe-failed-body", "probe-after-records", "probe-nccl"]
            + [f"small-{model}-masked" for model in MODELS]
            + [f"compare-small-{model}" for model in MODELS]))
        needed = {each.name for each in plan.until("peers", run)}
        for name in ("profile-{}", "compare-{}", "peers-{}"):
            models = PEERS if name == "peers-{}" else MODELS
            for scale in ("small", "full"):
                self.assertLessEqual({f"{name.format(scale)}-{m}" for m in models}, needed)

    def test_pieces_that_run_together_take_what_the_longest_takes_or_their_share(self):
        def minutes(*of):
            return plan.reckoned([piece(str(i), about=60 * about, together=together)
                                  for i, (about, together) in enumerate(of)])

        self.assertEqual(minutes(), 0)
        self.assertEqual(minutes((1, False), (2, False)), 3)
        self.assertEqual(minutes((1, False), *[(2, True)] * 8), 3)
        self.assertEqual(minutes((1, False), (9, True), (2, True)), 10)

    def test_it_says_what_each_part_takes(self):
        self.maxDiff = None
        self.assertEqual("\n".join(plan.plan(whole_run())) + "\n", PLAN)


class Short(unittest.TestCase):
    def names(self, *of):
        return [piece.name for piece in pieces.chosen_pieces(list(of), whole_run(ops=2))]

    def each(self, form, models):
        large = sorted(models, key=lambda model: model.startswith("conv"))
        return [form.format(model) for model in large]

    def test_a_short_call_begins_with_the_device_and_what_counts_first(self):
        self.assertEqual(self.names("short-a"), [
            "device", *(f"compare-small-{model}" for model in MODELS),
            *self.each("compare-full-{}", MODELS), *(f"small-{model}-masked" for model in MODELS),
            *self.each("full-{}", MODELS)])
        others = [model for model in PEERS if not model.startswith("conv")]
        self.assertEqual(self.names("short-b"), [
            "device", "peers-full-convnet", "peers-full-conv_autoenc",
            "peers-compiled-full-convnet", "peers-compiled-full-conv_autoenc",
            *self.each("peers-full-{}", others), *self.each("peers-compiled-full-{}", others)])
        self.assertEqual(self.names("short-c"), [
            "device", "train-digits", "train-mnist", "train-text",
            *(f"allocations-{model}" for model in MODELS), "probe-nccl", "engines"])
        self.assertEqual(self.names("short-d"), [
            "device", *self.each("peers-tf32-full-{}", PEERS),
            *self.each("peers-autotuned-full-{}", PEERS),
            *(f"{tool}-{op}" for tool in pieces.TOOLS for op in ("group", "op1"))])

    def test_parts_keep_their_order_and_come_behind_short_calls(self):
        whole = [piece.name for piece in whole_run(ops=2)]
        self.assertEqual(self.names(), whole)
        both = self.names("probe", "short-c")
        self.assertEqual(both[1:4], ["train-digits", "train-mnist", "train-text"])
        self.assertEqual(both[-3:], ["probe-graphs", "probe-failed-body", "probe-after-records"])

    def test_a_training_whose_data_are_missing_says_so(self):
        with tempfile.TemporaryDirectory() as name:
            bundle = pathlib.Path(name)
            (bundle / "data").mkdir()
            (bundle / "data" / "digits.csv").touch()
            places = pieces.Places(bundle, bundle / "bin", bundle, bundle / "tuning.json", "python3",
                                   "lib", ["add"], ["mlp"])
            digits, _, text = pieces.Maker(places).training()
        self.assertEqual(digits.environment["METRONOME_DIGITS"], f"{bundle}/data/digits.csv")
        self.assertEqual(text.environment["METRONOME_TEXT"], "")
        self.assertEqual(" ".join(text.command),
                         f"{bundle}/bin/metronome train text --device cuda --no-save")
        said = ("metronome: METRONOME_TEXT is empty, as ./metronome could not fetch the text: run "
                "`./metronome setup` again, or let it name a folder of files of fortunes")
        self.assertEqual(verdict.judged(text, 1, True, [said], None), ("unavailable", said))


class Peers(Folders):
    def of(self, part):
        return [piece for piece in whole_run() if piece.part == part]

    def test_each_model_has_a_piece_and_who_is_ready_soon_comes_first(self):
        large = [*(m for m in PEERS if not m.startswith("conv")), "convnet", "conv_autoenc"]
        both = [f"{scale}-{model}" for scale in ("small", "full") for model in large]
        self.assertEqual([p.name for p in self.of("peers")], [f"peers-{each}" for each in both])
        self.assertEqual([p.name for p in self.of("peers-compiled")],
                         [f"peers-compiled-{each}" for each in both])
        self.assertEqual([p.name for p in self.of("peers-tf32")],
                         [f"peers-tf32-full-{model}" for model in large])
        self.assertEqual([p.name for p in self.of("peers-autotuned")],
                         [f"peers-autotuned-{each}" for each in both])
        parts = [p.part for p in whole_run() if p.part.startswith("peers")]
        self.assertEqual(parts, [*["peers"] * 20, *["peers-compiled"] * 20,
                                 *["peers-autotuned"] * 20, *["peers-tf32"] * 10])

    def test_what_each_measures(self):
        begin = "python3 -m peers --device cuda --scale"
        for part, command in {
            "peers": f"{begin} small --models mlp --cache work/peers --peers graph metronome "
            "--json work/peers-small-mlp.json",
            "peers-compiled": f"{begin} small --models mlp --cache work/peers --peers compile "
            "compile_reduce_overhead jax --json work/peers-compiled-small-mlp.json",
            "peers-autotuned": f"{begin} small --models mlp --cache work/peers --peers "
            "compile_max_autotune --json work/peers-autotuned-small-mlp.json",
            "peers-tf32": f"{begin} full --models mlp --cache work/peers --tf32 "
            "--json work/peers-tf32-full-mlp.json",
        }.items():
            self.assertEqual(" ".join(self.of(part)[0].command), command)

    def test_a_launch_that_hangs_ends_its_program_but_not_under_compute_sanitizer(self):
        limits = {}
        for each in whole_run():
            limits.setdefault(each.part, set()).add(each.environment["METRONOME_LAUNCH_LIMIT"])
        self.assertEqual(limits, {part: {"" if part == "sanitizers" else "5"} for part in pieces.PARTS})

    def test_one_that_goes_on_is_begun_for_what_it_gets_done(self):
        said = self.work / "said"
        code = f"import sys; open({str(said)!r}, 'w').write(' '.join(sys.argv[1:]))"
        file = self.work / "model.json"
        model = piece("model", code, about=300, limit=400, resumes=True, file=file)
        found = self.run_pieces(model, seconds=59, clock=lambda: 0)
        self.assertEqual(self.states(found)["model"],
                         ("unfinished", "not begun: it takes about 60 s, 59 s are left"))
        self.run_pieces(model, seconds=70, clock=lambda: 0)
        self.assertEqual(said.read_text(), "--limit 55")


PAGE = """\
# What the GPU check found

a GPU; a processor, 2 cores; driver unknown; commit c1, bundle b1; pieces ended from \
2026-11-30T07:00:01Z to 2026-11-30T07:00:05Z.
Times are medians +- 1.4826 MAD; every sample is in `gpu-check.jsonl`. A fed step copies its batch \
from page-locked memory.

| part | passed | failed | unavailable | unfinished | s |
| --- | ---: | ---: | ---: | ---: | ---: |
| conformance | 0 | 1 | 0 | 0 | 2 |
| compare-small | 1 | 0 | 0 | 0 | 2 |
| profiles | 1 | 0 | 0 | 0 | 2 |
| training | 1 | 0 | 0 | 0 | 2 |
| sanitizers | 0 | 0 | 1 | 1 | 4 |

## Failed

- **op-add** (what op-add does): FAILED  add: 3 cases are right: f32: output 0
  - add: 3 cases are right: f32: output 0

## Unavailable

- memcheck-add: Device not supported

## Not reached: call it again

- racecheck-add: not begun: it takes about 9 s, 3 s are left

## A training step beside libtorch's eager one, small

| model | eager ms | deterministic | planned ms | eager / planned | fed: eager ms | fed: planned ms | floor ms \
| planned / floor | host us | nodes | form | agrees |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| mlp | 0.5000 +- 0.0074 | 0.8000 +- 0.0119 | 0.0500 +- 0.0007 | 10.00 (faster) | 0.6000 +- 0.0089 \
| 0.0600 +- 0.0009 | 0.0100 | 5.00 | 3.00 +- 0.04 \
| 40 | one graph, 1 stream | yes |

## Where a step's time goes

### mlp, small: 5.5 us a step, 4.0 in kernels, by copies in a graph, launches; floor 10.0 us

| kernel | us a step | share |
| --- | ---: | ---: |
| gemm | 3.00 | 75.0 % |
| gelu | 1.00 | 25.0 % |

## Trainings

### what train-text does

    test    2.4 bits a byte
      eager   3.6
"""


class Page(Folders):
    def test_it_tells_what_passed_what_failed_and_what_was_measured(self):
        seconds = iter(range(60))
        clock = mock.patch.object(results, "now", lambda: f"2026-11-30T07:00:{next(seconds):02}Z")
        clock.start()
        self.addCleanup(clock.stop)
        found = results.Results(self.folder, WHO)
        outcome = {"subject": "add", "check": "3 cases are right", "passed": False,
                   "detail": "f32: output 0\nf64: output 0"}
        kernels = [{"kernel": "gelu", "microseconds": 1.0, "by": "launches"},
                   {"kernel": "gemm", "microseconds": 3.0, "by": "copies in a graph"}]
        for name, part, status, detail, measured in (
            ("op-add", "conformance", "failed", "FAILED  add: 3 cases are right: f32: output 0", [outcome]),
            ("compare-small-mlp", "compare-small", "passed", "", {"results": [COMPARED]}),
            ("profile-small-mlp", "profiles", "passed", "", {"step_microseconds": 5.5, "kernels": kernels}),
            ("train-text", "training", "passed", "", None),
            ("memcheck-add", "sanitizers", "unavailable", "Device not supported", None),
            ("racecheck-add", "sanitizers", "unfinished", "not begun: it takes about 9 s, 3 s are left", None),
        ):
            found.add({"piece": name, "part": part, "kind": part, "what": f"what {name} does",
                       "status": status, "seconds": 2.0, "detail": detail, "results": measured,
                       "said": ["test    2.4 bits a byte", "  eager   3.6"]})
        self.maxDiff = None
        self.assertEqual(page.page(found), PAGE)
        page.write_page(found)
        self.assertEqual((self.folder / "gpu-check.md").read_text(), PAGE)
        found.out.close()

    def test_peers_of_a_model_stand_together_whatever_piece_they_were_in(self):
        def row(peer, ms, ratio, **more):
            return {"peer": peer, "label": f"{peer}'s label", "ms": samples(ms), "ratio": ratio,
                    "agree": True} | more

        def result(model, *rows):
            return {"model": model, "scale": "full", "precision": "ieee", "peers": list(rows)}

        found = results.Results(self.folder, WHO)
        for part, measured in (
            ("peers", result("mlp", row("eager", 0.5, 1), row("metronome", 0.05, 10))),
            ("peers", result("convnet", row("eager", 2.0, 1), row("metronome", 1.0, 2, agree=False))),
            ("peers-compiled", result("mlp", row("eager", 0.6, 1), row("compile", 0.3, 2),
                                      {"peer": "jax", "label": "JAX jit", "unavailable": "no jax"})),
        ):
            found.add({"piece": f"{part}-full-{measured['model']}", "part": part, "kind": part,
                       "what": "", "status": "passed", "seconds": 2.0, "detail": "",
                       "results": {"results": [measured]}})
        self.assertEqual("\n".join(page.peers(list(found.records.values()))), """\
## Beside PyTorch and JAX: full, IEEE fp32

| model | peer | ms | eager / it | agrees |
| --- | ---: | ---: | ---: | ---: |
| mlp | eager's label | 0.5000 +- 0.0074 | 1.00 | yes |
| mlp | metronome's label | 0.0500 +- 0.0007 | 10.00 | yes |
| mlp | eager's label, once more | 0.6000 +- 0.0089 | 1.00 | yes |
| mlp | compile's label | 0.3000 +- 0.0044 | 2.00 | yes |
| mlp | JAX jit | unavailable: no jax | - | - |
| convnet | eager's label | 2.00 +- 0.03 | 1.00 | yes |
| convnet | metronome's label | 1.00 +- 0.01 | 2.00 | NO |
""")
        found.out.close()

    def test_a_page_that_fails_says_so_and_leaves_the_last_one(self):
        found = results.Results(self.folder, WHO)
        found.add({"piece": "profile-small-mlp", "part": "profiles", "what": "", "status": "passed",
                   "seconds": 1, "detail": "", "results": {"kernels": [{"name": "of another form"}]}})
        self.assertEqual(page.write_page(found), "gpu-check.md is not written: KeyError: 'microseconds'")
        found.out.close()


    def test_a_page_refuses_records_of_others(self):
        record = {"piece": "op-add", "part": "conformance", "status": "passed", "seconds": 1}
        found = results.Results(self.folder, WHO)
        for stamp, message in (
            (STAMP | {"bundle": "b2", "commit": "c2"},
             "is of bundle b2 (commit c2), and this is b1 (commit c1)"),
            (STAMP | {"device": "another GPU"}, "is of the device another GPU, and here is a GPU"),
            ({}, "has no stamp (it lacks bundle, commit, device, date)"),
        ):
            found.records = {"op-add": record | stamp}
            self.assertEqual(page.write_page(found),
                             f"gpu-check.md is not written: {found.file}: the line of op-add "
                             f"{message}: name another folder with --results")
        found.out.close()


if __name__ == "__main__":
    unittest.main()
