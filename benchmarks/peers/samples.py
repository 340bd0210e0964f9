"""`--samples`: torch.testing's samples of ops, imported by Metronome and compared with PyTorch."""

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from .crew import Peer, Unavailable
from .sample_rules import RULES, rule_of

LIMIT = 3600
# Evenly spaced: the ops with the most samples have hundreds, and the first may all be empty.
MOST_SAMPLES = 60
# In a row, of an op: then PyTorch exports no other either.
MOST_UNEXPORTED = 4
# Seconds. All samples are small; what takes longer hangs.
LONGEST_START, LONGEST_SAMPLE = 120, 60
REASON_WIDTH = 150
_LOCATION = re.compile(r" \([^()]*\.cc:\d+\)")
AGREES, IN_PART, REFUSED, APART, LEFT_OUT = "agrees", "in part", "refused", "APART", "left out"


def reason(error: str) -> str:
    """One line of an error of the importer: ops without a counterpart, or what an op requires."""
    first, *others = error.strip().splitlines() or [""]
    if first.endswith("without a counterpart here"):
        ops = dict.fromkeys(line.split()[0] for line in others if line.strip())
        return shortened(f"no counterpart: {', '.join(ops)}")
    required = [line.split("requires", 1)[1] for line in others if line.startswith("  requires ")]
    # "file.cc:1: program "x.pt2": aten.cat.default (...) cannot join", "file.cc:1: add cannot join"
    said = first.split('.pt2": ')[-1].split(".pt2: cannot be imported: ")[-1]
    if required:
        op = said.split(".cc:")[-1].split(": ", 1)[-1].split()[0]
        return shortened(f"{op} requires {required[0].strip()}")
    return shortened(_LOCATION.sub("", said))


def shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= REASON_WIDTH else text[: REASON_WIDTH - 3] + "..."


def state(samples: list[dict]) -> str:
    """What an op's samples are together. Those that are left out count for nothing."""
    counts = Counter(sample["result"] for sample in samples if sample["result"] != LEFT_OUT)
    if counts[APART]:
        return APART
    if not counts[AGREES]:
        return REFUSED if counts or not samples else LEFT_OUT
    return IN_PART if counts[REFUSED] else AGREES


def about(samples: list[dict]) -> str:
    """The first sample that is apart, or else the most frequent reason of those refused."""
    for sample in samples:
        if sample["result"] == APART:
            return f"sample {sample['sample']}: {sample['about']}"
    reasons = Counter(sample["about"] for sample in samples if sample["result"] == REFUSED)
    return reasons.most_common(1)[0][0] if reasons else ""


class Sides:
    """Both processes. One that ended is started again when it is asked next."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.peers: dict[str, Peer] = {}

    def ask(self, name: str, do: str, **arguments) -> dict:
        """An answer, which may be {"error": ...}. Raises Unavailable if the process ended."""
        if name not in self.peers:
            peer = Peer(name, self.folder, device="cpu", threads=1, tf32=False)
            peer.hear(LONGEST_START)
            self.peers[name] = peer
        try:
            return self.peers[name].attempt(LONGEST_SAMPLE, do, **arguments)
        except Unavailable:
            del self.peers[name]
            raise

    def stop(self) -> None:
        for peer in self.peers.values():
            peer.stop()


def try_sample(sides: Sides, sample: int, folder: Path) -> dict:
    """One sample's result. Raises Unavailable if PyTorch's process ended."""
    files = {key: str(folder / f"{sample}.{key}") for key in ("pt2", "feeds", "told")}
    fed = {"program": files["pt2"], "feeds": files["feeds"]}
    exported = sides.ask("eager_samples", "export", sample=sample, **fed)
    if "error" in exported:
        said = f"PyTorch does not export it: {exported['error']}"
        return {"result": REFUSED, "about": shortened(said), "unexported": True}
    if "draws" in exported:
        return {"result": LEFT_OUT, "about": "a dropout draws numbers"}
    fed |= {key: exported[key] for key in ("inputs", "outputs")}
    try:
        told = sides.ask("metronome_import", "differentiate", into=files["told"], **fed)
    except Unavailable as died:
        return {"result": APART, "about": shortened(str(died))}
    if "error" in told:
        return {"result": REFUSED, "about": reason(told["error"])}
    judged = sides.ask("eager_samples", "judge", types=told["types"], into=files["told"])
    if wrong := judged.get("error") or judged["apart"]:
        return {"result": APART, "about": shortened(wrong)}
    gradients = any(output is not None for output in exported["outputs"])
    facts = {key: exported[key] for key in ("elements", "finite")}
    return {"result": AGREES, "about": "", "gradients": gradients, **facts}


def try_op(sides: Sides, op: str) -> dict:
    """All samples of an op. Its files are gone afterwards."""
    samples: list[dict] = []
    unexported = 0
    try:
        with tempfile.TemporaryDirectory(prefix="metronome-samples-") as folder:
            taken_up = sides.ask("eager_samples", "sample", op=op, most=MOST_SAMPLES)
            if "error" in taken_up:
                raise Unavailable(taken_up["error"])
            for i in range(taken_up["samples"]):
                found = try_sample(sides, i, Path(folder))
                samples.append({"sample": i, **found})
                unexported = unexported + 1 if "unexported" in found else 0
                if unexported == MOST_UNEXPORTED:
                    break
    except Unavailable as failed:
        said = shortened(f"PyTorch's process failed: {failed}")
        samples.append({"sample": len(samples), "result": REFUSED, "about": said})
    return {"op": op, "result": state(samples), "about": about(samples), "samples": samples}


def show(row: dict) -> None:
    tried = [sample for sample in row["samples"] if sample["result"] != LEFT_OUT]
    agree = sum(sample["result"] == AGREES for sample in tried)
    line = f"{row['op']:<50} {row['result']:>8} {agree:>3} of {len(tried):>2}  {row['about']}"
    print(line.rstrip(), flush=True)


def counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def show_totals(rows: list[dict]) -> None:
    ops = Counter(row["result"] for row in rows)
    samples = Counter(sample["result"] for row in rows for sample in row["samples"])
    print(
        f"{counted(len(rows), 'op')}: {ops[AGREES]} agree, {ops[IN_PART]} in part, "
        f"{ops[REFUSED]} refused, {ops[APART]} apart"
    )
    tried = samples.total() - samples[LEFT_OUT]
    print(
        f"{counted(tried, 'sample')}: {samples[AGREES]} agree, {samples[REFUSED]} refused, "
        f"{samples[APART]} apart; besides, {samples[LEFT_OUT]} left out, as a dropout draws numbers"
    )


def show_rules(names: list[str]) -> None:
    left_out = [rule_of(name) for name in names]
    for rule in RULES:
        if count := left_out.count(rule):
            print(f"left out: {counted(count, 'op')} by the rule \"{rule.name}\": {rule.reason}")


def chosen_of(asked: list[str], known: list[str]) -> list[str]:
    """The ops that are asked for, or all. Raises Unavailable if there is no such op."""
    for name in asked:
        if name not in known:
            raise Unavailable(f'--samples: torch.testing has no op "{name}"')
    return list(dict.fromkeys(asked)) or known


def contest(args: argparse.Namespace, report: dict, end: float, keep: Callable) -> int:
    """Tries one op after the other, and keeps the report after each. Returns the exit status, which
    is 1 if any sample is apart, or no time was left."""
    with tempfile.TemporaryDirectory(prefix="metronome-peers-") as folder:
        sides = Sides(Path(folder))
        try:
            known = sides.ask("eager_samples", "names")["names"]
            names = chosen_of(args.samples, known)
            return try_all(names, sides, report, end, keep)
        except Unavailable as failed:
            print(f"metronome peers: {failed}", file=sys.stderr)
            return 2
        finally:
            sides.stop()


def try_all(names: list[str], sides: Sides, report: dict, end: float, keep: Callable) -> int:
    tried = [name for name in names if rule_of(name) is None]
    rows = {row["op"]: row for row in report["results"] if row.get("op") in tried}
    machine = report["machine"]
    print(
        f"{machine['cpu']}, {machine['cores']} cores, load {machine['load']:.2f}; "
        f"values and first gradients of up to {MOST_SAMPLES} samples an op, f32, 1 thread"
    )
    without_time = 0
    for name in tried:
        if name in rows:
            continue
        if time.monotonic() >= end:
            without_time += 1
            continue
        rows[name] = try_op(sides, name)
        show(rows[name])
        report["results"].append(rows[name])
        keep(report)
    show_totals(list(rows.values()))
    show_rules(names)
    if without_time:
        print(f"no time was left for {counted(without_time, 'op')}")
    apart = any(row["result"] == APART for row in rows.values())
    return 1 if apart or without_time else 0
