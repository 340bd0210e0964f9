"""Runs the parts one by one, each in its time, and keeps what came out in one JSON file.

Run by run.sh, which finds libtorch.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dry import dry
from parts import Piece, all_parts
from peers.machine import this_machine

BUNDLE = Path(__file__).resolve().parent
# A piece that is given less is not begun.
LEAST_SECONDS = 20
# Of one piece's words, that the log keeps.
MOST_LOGGED = 200_000
STATES = ("passed", "failed", "unavailable", "unfinished")


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


def stop(process: subprocess.Popen) -> None:
    """Asks it to end, which lets it end what it started in sessions of their own; then makes it."""
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        pass


def run(piece: Piece, log: Path, seconds: float) -> dict:
    """status; seconds; the end of what it said."""
    if piece.needs and shutil.which(piece.needs) is None:
        return {"status": "unavailable", "detail": f"there is no {piece.needs} here"}
    start = time.monotonic()
    status = None
    with log.open("wb") as out:
        try:
            process = subprocess.Popen(
                piece.command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=BUNDLE,
                env={**os.environ, **piece.environment},
                start_new_session=True,
            )
        except OSError as error:
            return {"status": "failed", "detail": f"{piece.command[0]}: {error.strerror}"}
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            stop(process)
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # whatever it left behind
            except ProcessLookupError:
                pass
            process.wait()
    lines = log.read_text(errors="replace").strip().splitlines() or [""]
    text = "\n".join(lines[-40:])
    outcome = {"seconds": round(time.monotonic() - start, 1), "detail": text}
    if any(refusal in text for refusal in piece.refusals):
        return {"status": "unavailable", **outcome}
    if status is None:
        return {"status": "unfinished", **outcome}
    outcome["exit_status"] = status
    if status == 3:
        return {"status": "unavailable", **outcome, "detail": lines[-1]}
    if piece.resumes and status == 0:
        rows = rows_of(piece)
        if any(row.get("unavailable", "").endswith("no time was left") for row in rows):
            return {"status": "unfinished", **outcome}
        if all("unavailable" in row for row in rows):
            why = rows[0]["unavailable"] if rows else "nothing was measured"
            return {"status": "unavailable", **outcome, "detail": why}
    return {"status": "passed" if status == 0 else "failed", **outcome}


def rows_of(piece: Piece) -> list[dict]:
    """What the peers' program kept, model by model."""
    if not piece.json.exists():
        return []
    results = json.loads(piece.json.read_text())["results"]
    return [row for result in results for row in result["peers"]]


def bundle_hash() -> str:
    """Of programs and scripts: a bundle that was changed without a commit is another one."""
    whole = hashlib.sha256()
    for file in sorted([*BUNDLE.glob("bin/*"), *BUNDLE.glob("*.py"), *BUNDLE.glob("peers/*.py")]):
        whole.update(file.name.encode() + file.read_bytes())
    return whole.hexdigest()[:16]


def keep(file: Path, report: dict) -> None:
    partial = file.with_name(file.name + ".partial")
    partial.write_text(json.dumps(report, indent=1) + "\n")
    os.replace(partial, file)


def earlier(file: Path, work: Path, report: dict) -> None:
    """Takes over what a run of the same bundle on the same device has finished."""
    before = {}
    if file.exists():
        try:
            before = json.loads(file.read_text())
        except ValueError:
            say(f"{file} is damaged: it begins anew")
    same = before and all(before.get(key) == report[key] for key in ("bundle", "device"))
    if before and not same:
        old = file.with_name(f"gpu-check-{before.get('bundle', 'old')}.json")
        os.replace(file, old)
        say(f"{file} was of another bundle or device, and is now {old.name}: it begins anew")
    if not same:
        for stale in work.glob("*.json"):
            stale.unlink()
        return
    for name, piece in before["pieces"].items():
        if piece["status"] != "unfinished":
            report["pieces"][name] = piece
        elif "results" in piece:
            # It goes on where it was: from its own file, perhaps on a new machine.
            own = work / f"{name}.json"
            if not own.exists():
                own.write_text(json.dumps(piece["results"]))


def add_to_log(file: Path, piece: Piece, own: Path, outcome: dict) -> None:
    text = own.read_text(errors="replace")[-MOST_LOGGED:] if own.exists() else ""
    with file.open("a") as log:
        log.write(f"=== {piece.name}: {outcome['status']}\n{' '.join(piece.command)}\n{text}\n")


def take(piece: Piece, work: Path, log: Path, left: float, report: dict) -> dict:
    """One piece's entry in the report."""
    if report["device"] is None:
        return {"status": "unavailable", "detail": "this machine shows no GPU"}
    if left < LEAST_SECONDS:
        return {"status": "unfinished", "detail": "no time was left: run it again"}
    seconds = min(piece.seconds, left)
    if piece.resumes:
        piece.command[piece.command.index("--limit") + 1] = str(int(seconds - 15))
    own = work / f"{piece.name}.log"
    outcome = run(piece, own, seconds)
    if piece.json and piece.json.exists():
        try:
            outcome["results"] = json.loads(piece.json.read_text())
        except ValueError:
            pass  # it was stopped while it wrote
    add_to_log(log, piece, own, outcome)
    return outcome


def arguments() -> argparse.Namespace:
    class Parser(argparse.ArgumentParser):
        def error(self, message: str):
            """One sentence, without the usage above it."""
            self.exit(2, f"{self.prog}: {message}\n")

    parser = Parser(
        prog="run.sh",
        allow_abbrev=False,
        description="Checks and measures Metronome on this machine's GPU. What was finished is not "
        "run again: call it again to go on.",
    )
    names = list(all_parts(BUNDLE, BUNDLE, "", ""))
    add = parser.add_argument
    add("parts", nargs="*", metavar="PART", help=f"of {', '.join(names)}; all by default")
    add(
        "--results",
        type=Path,
        default=BUNDLE / "results",
        metavar="FOLDER",
        help="where gpu-check.json and gpu-check.log go; an earlier gpu-check.json is gone on with",
    )
    add("--limit", type=float, default=525, metavar="SECONDS", help="in all (525: under 9 min)")
    add("--again", action="store_true", help="run what was finished too")
    add("--dry", action="store_true", help="check what needs no GPU, and measure nothing")
    chosen = parser.parse_args()
    for part in chosen.parts:
        if part not in names:
            parser.error(f'there is no part "{part}": say {", ".join(names)}')
    try:
        chosen.results = chosen.results.resolve()
        chosen.results.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=chosen.results).close()
    except OSError as error:
        parser.error(f"{chosen.results} cannot be written ({error.strerror}): say --results FOLDER")
    return chosen


def work_folder() -> Path:
    """For tuning, caches and logs: the bundle's own, or one that can be written."""
    for folder in (
        BUNDLE / "work",
        Path(tempfile.gettempdir()) / f"metronome-gpu-check-{os.getuid()}",
    ):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            return folder
        except OSError:
            continue
    return Path(tempfile.mkdtemp(prefix="metronome-gpu-check-"))


def main() -> int:
    args = arguments()
    # Ended from outside, it still ends what it runs.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    end = time.monotonic() + args.limit
    work = work_folder()
    parts = all_parts(BUNDLE, work, sys.executable, os.environ["METRONOME_LIBRARIES"])
    if args.parts:
        parts = {part: parts[part] for part in args.parts}
    if args.dry:
        return dry(BUNDLE, parts, device())

    file, log = args.results / "gpu-check.json", args.results / "gpu-check.log"
    report = {
        "commit": (BUNDLE / "commit").read_text().strip(),
        "bundle": bundle_hash(),
        "device": device(),
        "machine": this_machine(),
        "pieces": {},
    }
    earlier(file, work, report)
    if args.again:
        for piece in (piece for pieces in parts.values() for piece in pieces):
            report["pieces"].pop(piece.name, None)
            if piece.json:
                piece.json.unlink(missing_ok=True)
    say(f"{report['device'] or 'no GPU'}; commit {report['commit']}; results in {file}")
    for part, pieces in parts.items():
        for piece in pieces:
            if piece.name in report["pieces"]:
                say(f"{piece.name:<26} {report['pieces'][piece.name]['status']} before")
                continue
            outcome = take(piece, work, log, end - time.monotonic(), report)
            report["pieces"][piece.name] = {"part": part, "what": piece.what, **outcome}
            keep(file, report)
            last = (outcome["detail"].splitlines() or [""])[-1]
            taken = outcome.get("seconds", 0)
            say(f"{piece.name:<26} {outcome['status']:<12} {taken:6.1f} s  {last}")
    states = [piece["status"] for piece in report["pieces"].values()]
    keep(file, report)
    say(", ".join(f"{states.count(state)} {state}" for state in STATES))
    return 1 if "failed" in states else 0


if __name__ == "__main__":
    sys.exit(main())
