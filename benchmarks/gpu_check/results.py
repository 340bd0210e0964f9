"""A folder of results: what each piece gave, line by line as it came, and what the next call takes up.

    gpu-check.jsonl   who measured what, then a line when a piece begins and one when it ends, each
                      with a stamp: bundle, commit, device, date
    gpu-check.md      the same for people (page.py)
    gpu-check.log     what the pieces said
    tuning.json       kernel choices that were timed
    caches.tar        what was compiled there (caches.py)
"""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from peers.machine import now

NAME = "gpu-check.jsonl"
OTHERS = ("gpu-check.log", "tuning.json", "caches.tar")
# Bytes of gpu-check.log, and of one piece's words in it: of them no more than a part of what is left
# of the log, so that the last piece has a place, too.
MOST_LOGGED = 8_000_000
MOST_OF_A_PIECE = 100_000
PART_OF_THE_REST = 16
FORMAT = 1
# Each line has these; the date is the one at which it was written.
STAMP = ("bundle", "commit", "device", "date")


class Refused(Exception):
    """What is wrong with a folder, in one sentence."""


def shortened(text: bytes, most: int) -> bytes:
    """Its beginning and its end where it has more bytes, and between them a line that says so."""
    if len(text) <= most:
        return text
    first, last = text[: most // 2], text[len(text) - most // 2 :]
    cut = f"\n[... {len(text) - len(first) - len(last)} bytes are left out ...]\n"
    return first + cut.encode() + last


def lines_of(file: Path) -> list[dict]:
    """A run that was killed may have left half a line."""
    lines = []
    for line in file.read_text(errors="replace").splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            lines.append(value)
    return lines


ELSEWHERE = "name another folder with --results"


def require_own(file: Path, lines: Iterable[dict], identity: dict) -> None:
    """Throws Refused unless each line is stamped by this bundle on this device."""
    for line in lines:
        piece = line.get("piece") or line.get("begun")
        where = f"{file}: the line of {piece}" if piece else str(file)
        if lacking := [key for key in STAMP if key not in line]:
            raise Refused(f"{where} has no stamp (it lacks {', '.join(lacking)}): {ELSEWHERE}")
        if line["bundle"] != identity["bundle"]:
            raise Refused(
                f"{where} is of bundle {line['bundle']} (commit {line['commit']}), and this is "
                f"{identity['bundle']} (commit {identity['commit']}): {ELSEWHERE}"
            )
        if line["device"] != identity["device"]:
            raise Refused(
                f"{where} is of the device {line['device']}, and here is {identity['device']}: "
                f"{ELSEWHERE}"
            )


def require_same(file: Path, identity: dict) -> None:
    """Throws Refused unless the whole file is of this bundle and device."""
    if head_of(file).get("gpu_check") != FORMAT:
        raise Refused(f"{file} is not of this check (format {FORMAT}): {ELSEWHERE}")
    require_own(file, lines_of(file), identity)


def head_of(file: Path) -> dict:
    with file.open(errors="replace") as lines:
        try:
            head = json.loads(lines.readline())
        except ValueError:
            return {}
    return head if isinstance(head, dict) else {}


def writable(folder: Path) -> Path:
    folder = folder.resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise Refused(
            f"{folder} cannot be written ({error.strerror}): say --results FOLDER"
        ) from None
    return folder


class Results:
    """Throws Refused where the folder, or the one that is taken up, is not of this bundle and
    device; nothing is changed then. `identity`: "bundle", "commit", "device" and "machine"."""

    def __init__(self, folder: Path, identity: dict, earlier: Path | None = None) -> None:
        self.folder, self.identity = writable(folder), identity
        self.file = self.folder / NAME
        if earlier is not None:
            self.take_up(earlier.resolve())
        if self.file.exists() and self.file.stat().st_size > 0:
            require_same(self.file, identity)
        try:
            self.out = self.file.open("a")
        except OSError as error:
            raise Refused(
                f"{self.file} cannot be written ({error.strerror}): say --results FOLDER"
            ) from None
        try:
            fcntl.flock(self.out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.out.close()
            raise Refused(f"{self.file} is written by another run at this moment") from None
        if self.file.stat().st_size == 0:
            self.write(self.stamped({"gpu_check": FORMAT, **identity}))
        elif not self.file.read_bytes().endswith(b"\n"):
            self.out.write("\n")
        self.records: dict[str, dict] = {}
        self.interrupted: set[str] = set()
        for line in lines_of(self.file)[1:]:
            if "begun" in line:
                self.interrupted.add(line["begun"])
            elif "piece" in line:
                self.interrupted.discard(line["piece"])
                self.records[line["piece"]] = line

    def take_up(self, earlier: Path) -> None:
        file = earlier / NAME
        if self.file.exists():
            raise Refused(f"{self.file} is there already: leave out --from, or name an empty folder")
        if not file.is_file():
            raise Refused(f"--from {earlier}: there is no {NAME} in it")
        require_same(file, self.identity)
        for name in (*OTHERS, NAME):  # the one that counts last
            if (earlier / name).exists():
                partial = self.folder / f"{name}.partial"
                shutil.copyfile(earlier / name, partial)
                os.replace(partial, self.folder / name)

    def stamped(self, line: dict) -> dict:
        who = {key: self.identity[key] for key in STAMP if key != "date"}
        return {**line, **who, "date": now()}

    def write(self, line: dict) -> None:
        self.out.write(json.dumps(line) + "\n")
        self.out.flush()
        os.fsync(self.out.fileno())

    def begin(self, piece: str) -> None:
        self.write(self.stamped({"begun": piece}))

    def add(self, record: dict) -> None:
        record = self.records[record["piece"]] = self.stamped(record)
        self.write(record)

    def finished(self, piece: str) -> bool:
        return self.records.get(piece, {}).get("status", "unfinished") != "unfinished"

    def log(self, piece: str, text: str) -> None:
        with (self.folder / "gpu-check.log").open("ab") as out:
            left = max(0, MOST_LOGGED - out.tell())
            most = min(MOST_OF_A_PIECE, left // PART_OF_THE_REST)
            said = f"==== {piece}\n".encode() + shortened(text.encode(), most) + b"\n"
            if len(said) <= left:
                out.write(said)
