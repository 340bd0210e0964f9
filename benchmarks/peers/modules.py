"""`--modules`: public architectures that PyTorch exported, trained by Metronome beside PyTorch."""

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from . import rounds
from .contest import FEWEST_STEPS, LONGEST_ANSWER, NO_TIME, ROUND_MS, SETTLE_S
from .crew import Peer, Unavailable
from .public_models import NAMES

# What a step is timed beside, by the peers' names.
LABELS = {"eager": "eager", "compile": "torch.compile"}
ROUNDS = 9
# Seconds: an architecture takes half a minute, most of it in PyTorch's f64.
LIMIT = 3 * 3600
STEPS = 20
# Of the first loss, from PyTorch's in f64.
FIRST_LOSS = 1e-5
# Metronome's f32 may be so many times as far from PyTorch's f64 as PyTorch's own f32. Below the
# floor all is near enough.
TIMES, FLOOR = 2, 1e-6
# Where PyTorch's own f32 is farther, rounding decides, as at a relu or in a norm of few numbers:
# f32 shows little there, and f64 is compared with f64.
ROUGH, IN_F64 = 1e-4, 1e-9
# What a training is judged by, each relative to the largest number of its kind.
KINDS = ("losses", "gradients", "parameters", "buffers")
ERROR_LINES = 2


def refusal(names: list[str], peers: list[str]) -> str | None:
    """One sentence, if there is no such architecture, or one of `peers` cannot take part."""
    for peer in peers:
        if peer not in LABELS:
            return f'"{peer}" cannot take part: say {", ".join(LABELS)} after --peers'
    for name in names:
        if name not in NAMES:
            return f'there is no "{name}": say {", ".join(NAMES)}'
    return None


def agrees_in_f32(found: dict, own: dict) -> bool:
    """`found` and `own` are Metronome's and PyTorch's distances from PyTorch's f64."""
    near = all(found[kind] <= max(TIMES * own[kind], FLOOR) for kind in KINDS)
    return near and found["first_loss"] <= FIRST_LOSS and max(own.values()) <= ROUGH


def worst(found: dict, own: dict) -> str:
    """What lies farthest outside, or else where PyTorch's own f32 is roughest: "losses 3.0e-05,
    PyTorch's own f32 1.0e-05"."""

    def outside(kind: str) -> float:
        return found[kind] / max(TIMES * own[kind], FLOOR)

    kind = max(KINDS, key=outside)
    if outside(kind) <= 1:
        kind = max(KINDS, key=lambda kind: own[kind])
    return f"{kind} {found[kind]:.1e}, PyTorch's own f32 {own[kind]:.1e}"


def verdict(found: dict, own: dict, in_f64: dict | None) -> tuple[str, str]:
    """How they agree, and what there is to say about it. `in_f64` are the distances of Metronome's
    f64, which is asked for where f32 does not agree."""
    if in_f64 is None:
        return "f32", ""
    far = {kind.replace("_", " "): of for kind, of in in_f64.items() if of > IN_F64}
    about = f"f32: {worst(found, own)}"
    if far:
        about += "; f64: " + ", ".join(f"{kind} {of:.1e}" for kind, of in far.items())
    # Steps may multiply a rounding: what the program computes shows in its first step.
    first = max(in_f64["first_loss"], in_f64["gradients"])
    return ("f64" if first <= IN_F64 else "APART"), about


class Sides:
    """The processes of one architecture. Raises Unavailable, with the reason, once one failed."""

    def __init__(self, name: str, args: argparse.Namespace, folder: Path, end: float):
        self.name, self.args, self.folder, self.end = name, args, folder, end
        self.peers: list[Peer] = []
        self.eager = self.start("eager_module")
        self.lr = self.ask(self.eager, "make", model=name)["lr"]

    def left(self) -> float:
        return max(0.0, self.end - time.monotonic())

    def start(self, peer_name: str) -> Peer:
        at = {"device": "cpu", "threads": self.args.threads, "tf32": False}
        peer = Peer(peer_name, self.folder, **at)
        self.peers.append(peer)
        peer.hear(min(120, self.left()))
        return peer

    def ask(self, peer: Peer, do: str, **arguments) -> dict:
        if self.left() == 0:
            raise Unavailable(NO_TIME)
        return peer.ask(min(LONGEST_ANSWER, self.left()), do, **arguments)

    def imported(self, dtype: str) -> tuple[Peer, dict]:
        """Metronome with the program in that precision, and what it says of it."""
        files = {key: str(self.folder / f"{dtype}.{key}") for key in ("program", "feeds")}
        exported = self.ask(self.eager, "export", dtype=dtype, **files)
        metronome = self.start("metronome_import")
        fed = {"inputs": exported["inputs"], "lr": self.lr, **files}
        facts = self.ask(metronome, "import", **fed) | self.ask(metronome, "compile")
        return metronome, facts

    def judged(self, metronome: Peer, dtype: str) -> dict:
        into = str(self.folder / dtype)
        trained = self.ask(metronome, "train", steps=STEPS, into=into)
        return self.ask(self.eager, "judge", dtype=dtype, into=into, **trained)["apart"]

    def in_f64(self) -> dict:
        metronome, _ = self.imported("f64")
        found = self.judged(metronome, "f64")
        metronome.stop()
        return found

    def take_turns(self, metronome: Peer) -> dict:
        sides = {"ms": partial(self.ask, metronome, "time")}
        for form in self.args.peers:
            sides[f"{form}_ms"] = partial(self.ask, self.eager, "time", form=form)
        steps: dict[str, int] = {}
        failed = {}
        for side, timed in sides.items():
            count = FEWEST_STEPS
            try:
                for _ in range(2):  # the first steps are slow, and make a turn too short
                    count = max(FEWEST_STEPS, int(ROUND_MS / timed(steps=count)["ms"]))
            except Unavailable as reason:
                if side != "compile_ms" or self.left() == 0:
                    raise
                failed = {"compile_failed": str(reason)}
                continue
            steps[side] = count

        def take(side: str) -> float:
            time.sleep(SETTLE_S)
            return sides[side](steps=steps[side])["ms"]

        rounds.interleave(steps, 1, take)  # warm-up
        taken = rounds.interleave(steps, self.args.rounds, take)
        found = {side: rounds.samples(values) for side, values in taken.items()}
        for form in self.args.peers:
            if f"{form}_ms" in found:
                found[f"{form}_ratio"] = found[f"{form}_ms"]["median"] / found["ms"]["median"]
        return found | failed

    def stop(self) -> None:
        for peer in self.peers:
            peer.stop()


def measure(name: str, args: argparse.Namespace, folder: Path, end: float) -> dict:
    row = {"model": name, "threads": args.threads, "rounds": args.rounds, "steps": STEPS}
    row["peers"] = args.peers
    sides = None
    try:
        sides = Sides(name, args, folder, end)
        own = sides.ask(sides.eager, "train", steps=STEPS)["apart"]
        metronome, facts = sides.imported("f32")
        found = sides.judged(metronome, "f32")
        row.update(facts, f32=found, eager_f32=own)
        if not agrees_in_f32(found, own):
            row["f64"] = sides.in_f64()
        row["result"], row["about"] = verdict(found, own, row.get("f64"))
        row.update(sides.take_turns(metronome))
    except Unavailable as reason:
        lines = str(reason).strip().splitlines()[:ERROR_LINES]
        row["result"] = "FAILED"
        row["about"] = "\n".join(lines) if sides is None or sides.left() > 0 else NO_TIME
    finally:
        if sides:
            sides.stop()
    return row


def show_heading(forms: list[str]) -> None:
    heading = (
        f"{'':<43} {'agrees in':>9} {'nodes':>6} {'import s':>9} {'compile s':>9} "
        f"{'Metronome ms':>20}"
    )
    for form in forms:
        heading += f" {LABELS[form] + ' ms':>20} {'/ Metronome':>11}"
    print(heading)


def show(row: dict, forms: list[str]) -> None:
    def spread(of: dict) -> str:
        return f"{of['median']:.3f} +- {1.4826 * of['mad']:.3f}"

    line = f"{row['model']:<43} {row['result']:>9}"
    if "ms" in row:
        line += (
            f" {row['nodes']:>6} {row['import_s']:>9.2f} {row['compile_s']:>9.2f} "
            f"{spread(row['ms']):>20}"
        )
        for form in forms:
            if f"{form}_ms" in row:
                line += f" {spread(row[f'{form}_ms']):>20} {row[f'{form}_ratio']:>11.2f}"
            else:
                line += f" {'-':>20} {'-':>11}"
    print(line)
    for about in row["about"].splitlines():
        print(f"    {about}")
    if "compile_failed" in row:
        print(f"    {LABELS['compile']}: {row['compile_failed'].strip().splitlines()[0]}")
    print(end="", flush=True)


def is_of_this_run(row: dict, args: argparse.Namespace) -> bool:
    run = (args.threads, STEPS, args.peers)
    return row["model"] in NAMES and (row["threads"], row["steps"], row["peers"]) == run


def contest(args: argparse.Namespace, report: dict, end: float, keep: Callable) -> int:
    """Measures one after the other, and keeps the report after each. Returns the exit status, which
    is 1 if any is apart or failed."""
    machine, threads = report["machine"], args.threads
    print(
        f"{machine['cpu']}, {machine['cores']} cores, load {machine['load']:.2f}; "
        f"exported modules, f32, {threads} {'thread' if threads == 1 else 'threads'}, "
        f"{args.rounds} rounds; "
        f"compared after {STEPS} steps of SGD; times are medians +- spreads"
    )
    show_heading(args.peers)
    mine = [row for row in report["results"] if is_of_this_run(row, args)]
    others = [row for row in report["results"] if row not in mine]
    rows = {row["model"]: row for row in mine if row["about"] != NO_TIME}
    for name in args.modules:
        if name in rows:
            continue
        with tempfile.TemporaryDirectory(prefix="metronome-peers-") as folder:
            rows[name] = measure(name, args, Path(folder), end)
        show(rows[name], args.peers)
        report["results"] = [*others, *rows.values()]
        keep(report)
    return 0 if all(rows[name]["result"] in ("f32", "f64") for name in args.modules) else 1
