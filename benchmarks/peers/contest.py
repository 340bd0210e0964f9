"""One model's measurement: its peers start, are checked against each other, and take turns. They
train, or they evaluate so many rows at once."""

import argparse
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import evaluation, rounds
from .crew import Peer, Unavailable
from .kinds import BASELINES, EVALUATORS, TRAINERS
from .machine import cores
from .sizes import LEARNERS


def ranks_of(args: argparse.Namespace) -> str:
    return "one" if args.ranks == 1 else "several"


# The first ten losses of each, from equal weights, beside eager's: |a - b| / |b|. Rounding differs,
# and Adam's first steps carry the sign of gradients that are zero but for rounding.
CHECKED_STEPS = 10
TOLERANCE = {"ieee": 1e-4, "tf32": 1e-2}
# Times that. At small scale convnet ends in a norm over four numbers, which multiplies rounding.
LOOSER = {"convnet": 10}
# Long enough for a clock and a scheduler not to matter, short enough for many rounds.
ROUND_MS = 25
FEWEST_STEPS = 2
# Before a peer's turn, the threads of the last one stop spinning: libgomp's do so for 3 ms.
SETTLE_S = 0.01
# Seconds. A model of seconds a step takes some hundred steps in one answer where it chooses a form.
LONGEST_ANSWER = 1200
NO_TIME = "no time was left"
ONE_RANK = "learners train on one rank here"


class Contest:
    """One model: its peers, from their start to the last round. `rows` are those of inference."""

    def __init__(
        self, model: str, rows: int | None, args: argparse.Namespace, folder: Path, end: float
    ):
        self.model, self.inference_rows, self.args, self.end = model, rows, args, end
        self.kinds = EVALUATORS if args.evaluate else TRAINERS
        self.precision = "tf32" if args.tf32 else "ieee"
        name = model if rows is None else f"{model}-{rows}"
        self.folder = folder / name
        self.folder.mkdir()
        self.weights = str(self.folder / "weights.npz")
        self.cache = None
        if args.cache:
            self.cache = args.cache / f"{args.scale}-{self.precision}" / name
        self.peers: dict[str, Peer] = {}
        self.rows: dict[str, dict] = {}
        self.baseline = BASELINES[ranks_of(args)]
        for name, kind in self.kinds.items():
            if kind.ranks not in (ranks_of(args), "any"):
                continue
            if name in args.peers or name == self.baseline:
                self.rows[name] = {"peer": name, "label": kind.label}
                if args.device == "cpu" and kind.without_gpu:
                    self.rows[name]["unavailable"] = kind.without_gpu
                if model in LEARNERS and args.ranks > 1:
                    self.rows[name]["unavailable"] = ONE_RANK
        self.facts: dict = {}

    def left(self) -> float:
        return max(0.0, self.end - time.monotonic())

    def attempt(self, name: str, work):
        """work(), or None and the reason kept in the peer's row."""
        if "unavailable" in self.rows[name]:
            return None
        try:
            if self.left() == 0:
                raise Unavailable(NO_TIME)
            return work()
        except Unavailable as reason:
            self.rows[name]["unavailable"] = str(reason) if self.left() > 0 else NO_TIME
            return None

    def start(self, name: str) -> None:
        args = self.args

        def work() -> None:
            if self.cache and (self.cache / name).exists():
                self.rows[name]["compiled_before"] = True
            peer = Peer(
                name,
                self.folder,
                self.cache,
                args.ranks,
                args.evaluate,
                device=args.device,
                threads=args.threads,
                tf32=args.tf32,
            )
            self.peers[name] = peer
            self.facts.update(peer.hear(min(120, self.left())))
            at = {"model": self.model, "scale": args.scale, "file": self.weights}
            if args.evaluate:
                at["rows"] = self.inference_rows
            if name == self.baseline:
                peer.ask_first(60, "weights", **at)
            self.rows[name].update(peer.ask(min(600, self.left()), "prepare", **at))

        self.attempt(name, work)

    def ask(self, name: str, do: str, **arguments):
        return self.attempt(
            name, lambda: self.peers[name].ask(min(LONGEST_ANSWER, self.left()), do, **arguments)
        )

    def begin(self) -> None:
        """The baseline, and with it the weights."""
        self.start(self.baseline)
        if reason := self.rows[self.baseline].get("unavailable"):
            gives = "PyTorch eager" if self.baseline == "eager" else "PyTorch DDP"
            for row in self.rows.values():
                row.setdefault("unavailable", f"{gives} gives the weights, and {reason}")

    def check(self) -> None:
        if self.args.evaluate:
            self.check_answers()
        else:
            self.check_losses()

    def check_answers(self) -> None:
        expected = None
        for name in self.peers:
            self.rows[name].update(self.ask(name, "choose") or {})
            into = self.folder / f"{name}.answers"
            asked = {"count": evaluation.CHECKED_ANSWERS, "into": str(into)}
            if self.ask(name, "outputs", **asked) is None:
                continue
            answers = evaluation.read_answers(into)
            expected = answers if expected is None else expected
            if answers.shape != expected.shape:
                found = f"its answers have {answers.size} numbers, not {expected.size}"
                self.rows[name]["unavailable"] = found
                continue
            worst = evaluation.difference(answers, expected)
            self.rows[name].update(max_difference=worst, agree=worst <= evaluation.TOLERANCE)

    def check_losses(self) -> None:
        expected = None
        for name in self.peers:
            self.rows[name].update(self.ask(name, "choose") or {})
            losses = (self.ask(name, "losses", count=CHECKED_STEPS) or {}).get("losses")
            if losses is None:
                continue
            expected = expected or losses
            worst = max(abs(a - b) / abs(b) for a, b in zip(losses, expected, strict=True))
            tolerance = TOLERANCE[self.precision] * LOOSER.get(self.model, 1)
            self.rows[name].update(losses=losses, max_difference=worst, agree=worst <= tolerance)

    def time(self) -> None:
        """Steps; of several ranks also those that each takes alone, at the same time as the others:
        the difference is communication that nothing hides."""
        kinds = ("time",) if self.args.ranks == 1 else ("time", "alone")
        steps = {}
        for name in self.peers:
            for kind in kinds:
                count = FEWEST_STEPS
                for _ in range(2):  # the first steps are slow, and make a turn too short
                    if first := self.ask(name, kind, steps=count):
                        count = max(FEWEST_STEPS, int(ROUND_MS / first["ms"]))
                        steps[name, kind] = count

        # Threads of ONNX Runtime spin for longer than others settle: they would take a core of the
        # next one's turn.
        pauses = self.args.evaluate

        def take(which: tuple[str, str]):
            name, kind = which
            if pauses:
                self.peers[name].go_on()
            time.sleep(SETTLE_S)
            answer = self.ask(name, kind, steps=steps[which])
            if pauses:
                self.peers[name].pause()
            return answer and answer["ms"]

        for peer in self.peers.values() if pauses else ():
            peer.pause()
        rounds.interleave(steps, 1, take)  # warm-up
        for (name, kind), values in rounds.interleave(steps, self.args.rounds, take).items():
            if "unavailable" not in self.rows[name]:
                self.rows[name]["ms" if kind == "time" else "alone_ms"] = rounds.samples(values)
        if not self.args.evaluate:
            for name in self.peers:
                self.rows[name].update(self.ask(name, "peak") or {})

    def result(self) -> dict:
        baseline = self.rows[self.baseline].get("ms")
        for row in self.rows.values():
            if baseline and "ms" in row:
                row["ratio"] = baseline["median"] / row["ms"]["median"]
            if "ms" in row and "alone_ms" in row:
                row["exposed_ms"] = row["ms"]["median"] - row["alone_ms"]["median"]
        inference = {"evaluate": True, "rows": self.inference_rows} if self.args.evaluate else {}
        return {
            "model": self.model,
            "scale": self.args.scale,
            **inference,
            "device": self.args.device,
            "precision": self.precision,
            "ranks": self.args.ranks,
            "threads": self.args.threads,
            "rounds": self.args.rounds,
            f"{self.baseline}_ms": baseline,
            "peers": list(self.rows.values()),
        }

    def stop(self) -> None:
        for peer in self.peers.values():
            peer.stop()


def measure(
    tasks: list[tuple[str, int | None]], args: argparse.Namespace, folder: Path, end: float
) -> Iterator[Contest]:
    """The contests of these models, each with its rows of inference, one by one. Peers that time
    nothing while they compile do so together, `jobs` at once; nothing compiles while anything is
    timed."""
    jobs = max(1, cores() // 2) if args.device == "cuda" else 1
    contests = [Contest(model, rows, args, folder, end) for model, rows in tasks]
    try:
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(Contest.begin, contests))
            quick = [
                (contest, name)
                for contest in contests
                for name in contest.rows
                if name != contest.baseline and not contest.kinds[name].times_itself
            ]
            list(pool.map(lambda each: each[0].start(each[1]), quick))
        for contest in contests:
            for name in contest.rows:
                if contest.kinds[name].times_itself:
                    contest.start(name)
            contest.check()
            contest.time()
            contest.stop()
            yield contest
    finally:
        for contest in contests:
            contest.stop()
