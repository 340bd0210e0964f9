"""Checks and measures Metronome on this machine's GPU, piece by piece. Run by run.sh, which finds
libtorch."""

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from caches import Caches
from dry import dry
from page import STATES, write_page
from peers.machine import this_machine
from pieces import PARTS, SHORT, all_pieces, chosen_pieces, places_of
from plan import plan
from results import Refused, Results, writable
from runner import Runner

BUNDLE = Path(__file__).resolve().parent
# Seconds: under nine minutes, and of a short call under six.
LIMIT = 525
SHORT_LIMIT = 350
NAMES = (*PARTS, *SHORT)


def say(text: str) -> None:
    print(text, flush=True)


def first_line(command: list[str]) -> str | None:
    """What a command prints; None where it fails."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return (said.stdout.strip().splitlines() or [None])[0]


def device() -> str | None:
    """The GPU's name; None where there is no driver or no device."""
    by_torch = "import torch; print(torch.cuda.get_device_name())"
    return first_line(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]) or first_line(
        [sys.executable, "-c", by_torch]
    )


def bundle_hash() -> str:
    """Of programs and scripts: a bundle that was changed without a commit is another one."""
    whole = hashlib.sha256()
    for file in sorted([*BUNDLE.glob("bin/*"), *BUNDLE.glob("*.py"), *BUNDLE.glob("peers/*.py")]):
        whole.update(file.name.encode() + file.read_bytes())
    return whole.hexdigest()[:16]


def identity() -> dict:
    return {
        "bundle": bundle_hash(),
        "commit": (BUNDLE / "commit").read_text().strip(),
        "device": device(),
        "machine": this_machine(),
    }


class Parser(argparse.ArgumentParser):
    def error(self, message: str):
        """One sentence, without the usage above it."""
        self.exit(2, f"{self.prog}: {message}\n")


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f'"{text}" is no number of seconds above zero')
    return value


def arguments() -> argparse.Namespace:
    parser = Parser(
        prog="run.sh",
        allow_abbrev=False,
        description="Checks and measures Metronome on this machine's GPU, each op and each model in "
        "a process of its own. What was finished is not run again: call it again to go on.",
    )
    add = parser.add_argument
    add("parts", nargs="*", metavar="PART", help=f"of {', '.join(NAMES)}; all parts by default")
    add(
        "--results",
        type=Path,
        default=BUNDLE / "results",
        metavar="FOLDER",
        help="where gpu-check.md (for people), gpu-check.jsonl, gpu-check.log, tuning.json and "
        "caches.tar go; earlier ones of the same bundle and device are gone on with",
    )
    add(
        "--from",
        type=Path,
        dest="earlier",
        metavar="FOLDER",
        help="results of an earlier call, which are left as they are and gone on with in --results",
    )
    add(
        "--limit",
        type=seconds,
        metavar="SECONDS",
        help=f"in all ({LIMIT}: under 9 minutes; of a short call {SHORT_LIMIT}: under 6); what does "
        "not fit is not begun",
    )
    add("--again", action="store_true", help="run what was finished too")
    add("--plan", action="store_true", help="tell the minutes that each part is reckoned to take")
    add("--dry", action="store_true", help="check what needs no GPU, and measure nothing")
    add(
        "--host",
        type=Path,
        metavar="FOLDER",
        help="with --dry: programs on a device made of the host, to go through all pieces with",
    )
    chosen = parser.parse_args()
    for part in chosen.parts:
        if part not in NAMES:
            parser.error(f'there is no part "{part}": say {", ".join(NAMES)}')
    if chosen.host and not chosen.dry:
        parser.error("--host needs --dry: it measures nothing")
    if chosen.plan and chosen.parts:
        parser.error("--plan is of all parts: name none")
    if chosen.limit is None:
        chosen.limit = SHORT_LIMIT if set(chosen.parts) & set(SHORT) else LIMIT
    return chosen


def work_folder() -> Path:
    """For caches and logs: the bundle's own, or one that can be written."""
    temporary = Path(tempfile.gettempdir())
    for folder in (BUNDLE / "work", temporary / f"metronome-gpu-check-{os.getuid()}"):
        try:
            return writable(folder)
        except Refused:
            continue
    return Path(tempfile.mkdtemp(prefix="metronome-gpu-check-"))


def check(args: argparse.Namespace) -> int:
    end = time.monotonic() + args.limit
    work = work_folder()
    results = Results(args.results, identity(), args.earlier)
    places = places_of(BUNDLE, work, results.folder / "tuning.json")
    pieces = chosen_pieces(args.parts, all_pieces(places))
    if args.again:
        for piece in pieces:
            results.records.pop(piece.name, None)
            piece.file and piece.file.unlink(missing_ok=True)
    who = results.identity
    say(f"{who['device'] or 'no GPU'}; commit {who['commit']}; results in {results.folder}")
    caches = Caches(BUNDLE, work, results.folder)
    Runner(pieces, results, caches, work, BUNDLE, end, say, lambda: write_page(results)).run()
    if trouble := write_page(results):
        say(trouble)
    states = Counter(record["status"] for record in results.records.values())
    say(", ".join(f"{states[state]} {state}" for state in STATES))
    return 1 if states["failed"] else 0


def tell_plan() -> int:
    for line in plan(all_pieces(places_of(BUNDLE, BUNDLE, BUNDLE))):
        say(line)
    return 0


def main() -> int:
    args = arguments()
    if args.plan:
        return tell_plan()
    # Ended from outside, it still ends what it runs.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        return dry(BUNDLE, args.host, args.parts, identity()) if args.dry else check(args)
    except Refused as reason:
        print(f"run.sh: {reason}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
