"""What the end of a piece means, from its status, what it said and what it wrote."""

import json
import signal
from pathlib import Path

from pieces import Piece

NO_TIME = "no time was left"  # of the peers' own report


def results_of(file: Path | None) -> list | dict | None:
    """What a program wrote: one JSON text, or as many lines of JSON as it came to."""
    if file is None or not file.exists():
        return None
    text = file.read_text(errors="replace")
    try:
        whole = json.loads(text)
        if isinstance(whole, dict) and whole.get("format") == "metronome plan record":
            return whole["times"]  # the plan can be had again without a device
        return [whole] if "check" in whole else whole
    except ValueError:
        pass
    lines = []
    for line in text.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    return lines


def name_of(number: int) -> str:
    return next((known.name for known in signal.Signals if known == number), f"signal {number}")


def first_wrong(lines: list[str]) -> str:
    """The line that says first what is wrong; the last one where none does."""
    for line in lines:
        if line.startswith(("FAILED", "terminate called", "metronome: ")):
            return line
        if line.startswith("========= ") and "COMPUTE-SANITIZER" not in line:
            return line
    return lines[-1]


def peers_outcome(results: dict | None) -> tuple[str, str] | None:
    """What the peers' program says in its file, where that is not success."""
    rows = [row for result in (results or {}).get("results", []) for row in result["peers"]]
    if any(row.get("unavailable", "").endswith(NO_TIME) for row in rows):
        return "unfinished", "it goes on when it is called again"
    if all("unavailable" in row for row in rows):
        return "unavailable", rows[0]["unavailable"] if rows else "nothing was measured"
    return None


def judged(piece: Piece, status: int | None, cut: bool, lines: list[str], found) -> tuple[str, str]:
    """The state of a piece that ended by itself, or that was ended: `cut` where its own limit was not
    the reason; and the line that says why."""
    text = "\n".join(lines)
    if any(refusal in text for refusal in piece.refusals):
        line = next(l for l in lines if any(refusal in l for refusal in piece.refusals))
        return "unavailable", line
    if status is None and cut:
        return "unfinished", f"the time was over; its last line: {lines[-1]}"
    if status is None:
        return "failed", f"hangs: it took more than {piece.limit:g} s; its last line: {lines[-1]}"
    if status < 0:
        return "failed", f"ended by {name_of(-status)}; its last line: {lines[-1]}"
    if status == 3:
        return "unavailable", lines[-1]
    if status == 0 and piece.resumes:
        return peers_outcome(found) or ("passed", lines[-1])
    return ("passed", lines[-1]) if status == 0 else ("failed", first_wrong(lines))
