"""Lets the peers take training steps in turn, and reports milliseconds a step."""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from . import learner, modules, samples
from .contest import NO_TIME, measure
from .crew import Unavailable
from .evaluation import row_counts
from .kinds import NAMES
from .machine import cores, stamp, this_machine
from .public_models import NAMES as MODULES
from .sizes import MODELS, SCALES

FEWEST_ROUNDS = 7
LIMIT = 3600


class Parser(argparse.ArgumentParser):
    def error(self, message: str):
        """One sentence, without the usage above it."""
        self.exit(2, f"{self.prog}: {message}\n")


def arguments() -> argparse.Namespace:
    parser = Parser(
        prog="metronome peers",
        allow_abbrev=False,
        description="The benchmark models in PyTorch (eager, compiled, captured), JAX and "
        "Metronome. Each takes the same steps from the same weights over the same batches and "
        "reads each loss.",
    )
    add = parser.add_argument
    add("--scale", choices=SCALES, help="small, the default, is the launch-bound form")
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add(
        "--models",
        nargs="+",
        choices=MODELS,
        metavar="MODEL",
        help=f"of {', '.join(MODELS)}; all by default",
    )
    add(
        "--peers",
        nargs="+",
        choices=NAMES,
        metavar="PEER",
        help=f"of {', '.join(NAMES)}; eager always takes part, and on several ranks ddp; of "
        f"--modules {', '.join(modules.LABELS)}, by default eager alone",
    )
    add("--ranks", type=int, help="train data parallel, one process a rank (CPU)")
    add(
        "--evaluate",
        action="store_true",
        help="inference in place of training: of one row, and of the model's batch (CPU)",
    )
    add("--tf32", action="store_true", help="TF32 products for all, in place of IEEE fp32 (GPU)")
    add(
        "--threads",
        type=int,
        help="of a CPU, for each rank; by default 1 at small scale and all cores, shared out "
        "between the ranks, at others",
    )
    add(
        "--learner",
        type=Path,
        metavar="FOLDER",
        help="measure a whole reinforcement learner beside RLtools instead, on one thread: FOLDER "
        "is a checkout of github.com/rl-tools/rl_tools, which g++ and OpenBLAS compile",
    )
    add(
        "--modules",
        nargs="*",
        metavar="NAME",
        help="public architectures of torchvision, timm and transformers instead, with random "
        "weights: PyTorch exports each, and Metronome trains it beside PyTorch eager, compared "
        f"with f64, and timed; all by default, of {', '.join(MODULES)}",
    )
    add(
        "--samples",
        nargs="*",
        metavar="OP",
        help="torch.testing's samples of ops instead: PyTorch exports each, and Metronome's values "
        "and first gradients are compared with those of PyTorch eager; all by default",
    )
    add(
        "--rounds",
        type=int,
        help=f"at least {FEWEST_ROUNDS}; by default 9 full, else 21; of --learner at least "
        f"{learner.FEWEST_ROUNDS}, by default {learner.ROUNDS}; of --modules by default "
        f"{modules.ROUNDS}",
    )
    add(
        "--limit",
        type=float,
        help=f"seconds after which nothing more is begun; by default {LIMIT}, of --modules "
        f"{modules.LIMIT}",
    )
    add(
        "--cache",
        type=Path,
        help="a folder for what compilers keep, so that a second run is ready sooner; without it "
        "each run compiles anew",
    )
    add(
        "--json",
        type=Path,
        help="also write every sample to a file, model by model; models that "
        "it already has are not measured again",
    )
    chosen = parser.parse_args()
    if chosen.learner:
        check_learner(chosen, parser)
    if chosen.modules is not None:
        check_modules(chosen, parser)
    if chosen.samples is not None:
        check_samples(chosen, parser)
    chosen.scale = chosen.scale or "small"
    chosen.models = chosen.models or list(MODELS)
    chosen.peers = chosen.peers or list(NAMES)
    if chosen.ranks is None:
        chosen.ranks = 1
    if chosen.evaluate:
        check_evaluate(chosen, parser)
    if chosen.tf32 and chosen.device == "cpu":
        parser.error("--tf32 needs --device cuda: a CPU has no TF32")
    if chosen.ranks < 1:
        parser.error(f"--ranks: {chosen.ranks} are too few, say 1 or more")
    if chosen.ranks > 1 and chosen.device == "cuda":
        parser.error("--ranks: several run on CPUs only")
    small = chosen.scale == "small"
    if chosen.rounds is None:
        full = chosen.scale == "full"
        chosen.rounds = learner.ROUNDS if chosen.learner else 9 if full else 21
        if chosen.modules:
            chosen.rounds = modules.ROUNDS
    if chosen.limit is None:
        chosen.limit = modules.LIMIT if chosen.modules else LIMIT
    if chosen.threads is None:
        chosen.threads = 1 if small and chosen.device == "cpu" else max(1, cores() // chosen.ranks)
    fewest = learner.FEWEST_ROUNDS if chosen.learner else FEWEST_ROUNDS
    if chosen.rounds < fewest:
        parser.error(f"--rounds: {chosen.rounds} are too few, say {fewest} or more")
    if chosen.threads < 1:
        parser.error(f"--threads: {chosen.threads} are too few, say 1 or more")
    if chosen.json and not os.access(chosen.json.resolve().parent, os.W_OK | os.X_OK):
        parser.error(
            f"--json: {chosen.json} cannot be written: there is no such folder, or no right"
        )
    if chosen.cache:
        chosen.cache = chosen.cache.resolve()
    return chosen


def options_of_models(chosen: argparse.Namespace) -> dict:
    """What only models of the table are measured with."""
    return {
        "--models": chosen.models,
        "--peers": chosen.peers,
        "--scale": chosen.scale,
        "--ranks": chosen.ranks,
        "--evaluate": chosen.evaluate,
        "--device cuda": chosen.device == "cuda",
        "--tf32": chosen.tf32,
        "--cache": chosen.cache,
    }


def check_modules(chosen: argparse.Namespace, parser: Parser) -> None:
    others = {**options_of_models(chosen), "--learner": chosen.learner, "--samples": chosen.samples}
    del others["--peers"]
    for option, given in others.items():
        if given not in (None, False):
            parser.error(
                f"--modules does not go with {option}, so leave one out: it trains exported "
                "modules beside PyTorch, in f32 on one CPU"
            )
    chosen.peers = list(dict.fromkeys(["eager", *(chosen.peers or [])]))
    if reason := modules.refusal(chosen.modules, chosen.peers):
        parser.error(f"--modules: {reason}")
    chosen.modules = list(dict.fromkeys(chosen.modules)) or list(MODULES)


def check_samples(chosen: argparse.Namespace, parser: Parser) -> None:
    others = {**options_of_models(chosen), "--threads": chosen.threads, "--rounds": chosen.rounds}
    for option, given in others.items():
        if given not in (None, False):
            parser.error(
                f"--samples does not go with {option}, so leave one out: it compares single ops "
                "with PyTorch eager, untimed, in f32 on one thread of a CPU"
            )


def check_learner(chosen: argparse.Namespace, parser: Parser) -> None:
    others = {**options_of_models(chosen), "--threads": chosen.threads, "--modules": chosen.modules}
    others["--samples"] = chosen.samples
    for option, given in others.items():
        if given not in (None, False):
            parser.error(
                f"--learner does not go with {option}, so leave one out: it trains one model "
                "beside RLtools, on one thread of a CPU, and compiles both anew"
            )
    if reason := learner.refusal(chosen.learner):
        parser.error(f"--learner: {reason}")
    chosen.learner = chosen.learner.resolve()


def check_evaluate(chosen: argparse.Namespace, parser: Parser) -> None:
    others = {
        f"--ranks {chosen.ranks}": chosen.ranks != 1,
        "--device cuda": chosen.device == "cuda",
        "--tf32": chosen.tf32,
    }
    for option, given in others.items():
        if given:
            parser.error(
                f"--evaluate does not go with {option}, so leave one out: inference is measured "
                "on CPUs only, on one rank"
            )


def show(result: dict) -> None:
    rows, digits = result.get("rows"), 4
    if rows is None:
        print(result["model"])
    else:
        digits = 6  # some take less than a microsecond
        print(f"{result['model']}, inference of {rows} {'row' if rows == 1 else 'rows'}")
    for row in result["peers"]:
        if "unavailable" in row:
            print(f"  {row['label']:<38} unavailable: {row['unavailable']}")
            continue
        ms, spread = row["ms"]["median"], 1.4826 * row["ms"]["mad"]
        # None where the baseline fell out, which is told in its own row.
        ratio = f"{row['ratio']:6.2f}" if "ratio" in row else "     -"
        against, exposed = "eager", ""
        if "exposed_ms" in row:
            against, exposed = "DDP", f"exposed {row['exposed_ms']:.4f} ms  "
        print(
            f"  {row['label']:<38} {ms:10.{digits}f} +- {spread:.{digits}f} ms  {exposed}"
            f"{against} / it {ratio}  ready in {row['compile_s']:6.1f} s  "
            f"{'agrees' if row['agree'] else 'DISAGREES'} "
            f"({row['max_difference']:.1e})  {row['form']}",
            flush=True,
        )


def read(file: Path) -> dict:
    """An earlier report. Results without a stamp get no stamp of this run."""
    report = json.loads(file.read_text())
    for result in report["results"]:
        result.setdefault("commit", "unknown")
        result.setdefault("date", "unknown")
    return report


def keep(file: Path, report: dict) -> None:
    """Each result has the commit and the time at which it was first kept."""
    for result in report["results"]:
        if "date" not in result:
            result.update(stamp())
    partial = file.with_name(file.name + ".partial")
    partial.write_text(json.dumps(report, indent=2) + "\n")
    os.replace(partial, file)


def finished(result: dict) -> bool:
    return all(row.get("unavailable") != NO_TIME for row in result.get("peers", []))


def unmeasured(args: argparse.Namespace, results: list[dict]) -> list[tuple[str, int | None]]:
    """The models that have no result of such a run, each with its rows of inference."""
    run = {
        "scale": args.scale,
        "device": args.device,
        "precision": "tf32" if args.tf32 else "ieee",
        "ranks": args.ranks,
        "evaluate": args.evaluate,
    }
    done = set()
    for result in results:
        if run.items() <= {"ranks": 1, "evaluate": False, **result}.items():
            done.add((result["model"], result.get("rows")))
    tasks = []
    for model in args.models:
        counts = row_counts(model, args.scale) if args.evaluate else (None,)
        tasks += [(model, rows) for rows in counts]
    return [task for task in tasks if task not in done]


def beside_rltools(args: argparse.Namespace, report: dict, end: float) -> int:
    if any(result["model"] == learner.MODEL for result in report["results"]):
        print(f"{args.json} has {learner.MODEL} already: name another file to measure it again")
        return 0
    try:
        with tempfile.TemporaryDirectory(prefix="metronome-peers-") as folder:
            result = learner.measure(args, Path(folder), end)
    except Unavailable as reason:
        print(f"metronome peers: {reason}", file=sys.stderr)
        return 2
    report["results"].append(result)
    learner.show(report["machine"], result)
    if args.json:
        keep(args.json, report)
    return 0


def main() -> int:
    args = arguments()
    # Ended from outside, it still ends its peers.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    end = time.monotonic() + args.limit
    report = {"machine": this_machine(), **stamp(), "results": []}
    if args.json and args.json.exists():
        report = read(args.json)
    if args.learner:
        return beside_rltools(args, report, end)
    keep_it = partial(keep, args.json) if args.json else lambda report: None
    if args.modules:
        return modules.contest(args, report, end, keep_it)
    if args.samples is not None:
        return samples.contest(args, report, end, keep_it)
    precision = "tf32" if args.tf32 else "ieee"
    results = report["results"] = [result for result in report["results"] if finished(result)]
    tasks = unmeasured(args, results)

    m = report["machine"]
    print(
        f"{m['cpu']}, {m['cores']} cores, load {m['load']:.2f}; "
        f"{'inference, ' if args.evaluate else ''}{args.scale} scale on "
        f"{args.device}, {precision}, {args.ranks} ranks, {args.threads} threads, "
        f"{args.rounds} rounds; times are medians +- spreads",
        flush=True,
    )
    # On a GPU's machine many cores wait: all models compile at once there.
    together = len(tasks) if args.device == "cuda" else 1
    with tempfile.TemporaryDirectory(prefix="metronome-peers-") as folder:
        for i in range(0, len(tasks), max(1, together)):
            for contest in measure(tasks[i : i + together], args, Path(folder), end):
                report["machine"].update(contest.facts)
                results.append(contest.result())
                show(results[-1])
                if args.json:
                    keep(args.json, report)
    agree = all(row.get("agree", True) for result in results for row in result["peers"])
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
