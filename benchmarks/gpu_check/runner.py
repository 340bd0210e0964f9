"""Runs pieces, each in a process of its own and within its time, and records what came of each."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from caches import Caches
from pieces import Piece
from results import Results
from verdict import judged, results_of

# Pieces that time nothing, at once; each holds half a GB of the device's memory.
MOST_TOGETHER = 8
# An estimate is the most that a piece of its kind took, and this much more.
MARGIN = 1.25
# Before what it is ended by is what it cannot ignore.
GRACE = 5
# Seconds. One that goes on where it was stopped stops by itself so long before it is ended, and is
# begun for whatever it gets done where there is so much time.
RESERVE = 15
LEAST_OF_RESUMED = 60


@dataclass
class Running:
    piece: Piece
    process: subprocess.Popen
    out: IO[bytes]
    begun: float
    deadline: float

    def stop(self) -> None:
        """Asks it to end, which lets it end what it started in sessions of their own; then makes it,
        and whatever it left behind."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(GRACE)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            pass  # the driver holds it: the others go on


@dataclass
class Runner:
    pieces: list[Piece]
    results: Results
    caches: Caches
    work: Path
    folder: Path  # that pieces run in
    end: float  # by the clock
    say: Callable[[str], None]
    page: Callable[[], object] = lambda: None
    clock: Callable[[], float] = time.monotonic  # seconds
    running: list[Running] = field(default_factory=list)
    took: dict[str, float] = field(default_factory=dict)  # kind -> the most seconds

    def run(self) -> None:
        for record in self.results.records.values():
            self.learn(record)
        waiting, before = [], Counter()
        for piece in self.pieces:
            if self.results.finished(piece.name):
                before[piece.part, self.results.records[piece.name]["status"]] += 1
            else:
                waiting.append(piece)
        for (part, status), count in before.items():
            self.tell(f"{count} of {part}", status, 0, "before")
        # One during which an earlier run was killed may kill this one.
        waiting.sort(key=lambda piece: piece.name in self.results.interrupted)
        try:
            while waiting or self.running:
                waiting = self.unsettled(waiting)
                while piece := self.next(waiting):
                    waiting.remove(piece)
                    self.begin(piece)
                if not self.running:
                    break
                self.wait_for_one()
        finally:  # ended from outside
            for running in [*self.running]:
                running.deadline = 0
                self.finish(running)
        self.leave(waiting)

    def leave(self, waiting: list[Piece]) -> None:
        left = max(0.0, self.left())
        for piece in waiting:
            about = self.estimate(piece)
            detail = f"not begun: it takes about {about:.0f} s, {left:.0f} s are left"
            before = self.results.records.get(piece.name, {}).get("results")
            self.record(piece, "unfinished", detail, found=before)
        for part, count in Counter(piece.part for piece in waiting).items():
            self.tell(f"{count} of {part}", "unfinished", 0, f"not begun: {left:.0f} s are left")

    # --- What comes next ---

    def left(self) -> float:
        return self.end - self.clock()

    def learn(self, record: dict) -> None:
        if record["status"] == "passed":
            kind = record["kind"]
            self.took[kind] = max(self.took.get(kind, 0), record["seconds"])

    def estimate(self, piece: Piece) -> float:
        """What it takes, by what others of its kind took."""
        about = piece.about
        if piece.kind in self.took:
            about = min(piece.limit, MARGIN * self.took[piece.kind])
        return min(about + RESERVE, LEAST_OF_RESUMED) if piece.resumes else about

    def fits(self, piece: Piece, waiting: list[Piece]) -> bool:
        kept = 0 if piece.kept else sum(self.estimate(each) for each in waiting if each.kept)
        return self.estimate(piece) + kept <= self.left()

    def next(self, waiting: list[Piece]) -> Piece | None:
        """The first that there is time for; beside others only where neither times anything."""
        if not self.running:
            return next((piece for piece in waiting if self.fits(piece, waiting)), None)
        beside = self.running[0].piece
        most = min(MOST_TOGETHER, os.cpu_count() or 1)
        if not beside.together or len(self.running) >= most:
            return None
        # Not before its gate has spoken.
        gates = {running.piece.name for running in self.running}
        return next(
            (
                piece
                for piece in waiting
                if piece.together
                and piece.part == beside.part
                and piece.gate not in gates
                and self.fits(piece, waiting)
            ),
            None,
        )

    def unsettled(self, waiting: list[Piece]) -> list[Piece]:
        """Those that must be run to know what comes of them; the others are unavailable."""
        left, reasons = [], {}
        for piece in waiting:
            gate = self.results.records.get(piece.gate or "", {})
            if gate.get("status") == "unavailable":
                reason = gate["detail"]
            elif piece.needs and shutil.which(piece.needs, path=self.path_of(piece)) is None:
                reason = f"there is no {piece.needs} here"
            else:
                left.append(piece)
                continue
            self.record(piece, "unavailable", reason)
            reasons.setdefault((piece.part, reason), []).append(piece)
        for (part, reason), pieces in reasons.items():
            self.tell(f"{len(pieces)} of {part}", "unavailable", 0, reason)
        return left

    # --- One piece ---

    def path_of(self, piece: Piece) -> str | None:
        return (os.environ | piece.environment).get("PATH")

    def begin(self, piece: Piece) -> None:
        seconds = min(piece.limit, self.left())
        command = [*piece.command]
        if piece.resumes:
            command += ["--limit", f"{seconds - RESERVE:.0f}"]
            self.restore(piece)
        elif piece.file:
            piece.file.unlink(missing_ok=True)
        self.results.begin(piece.name)
        log = (self.work / f"{piece.name}.log").open("wb")
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, **piece.environment},
                start_new_session=True,
            )
        except OSError as error:
            log.close()
            self.keep(piece, "failed", f"{command[0]}: {error.strerror}")
            return
        now = self.clock()
        self.running.append(Running(piece, process, log, now, now + seconds))

    def restore(self, piece: Piece) -> None:
        """What it goes on from: its own file where a run was killed, else what was recorded, perhaps
        on another machine."""
        before = self.results.records.get(piece.name, {}).get("results")
        if piece.name in self.results.interrupted and piece.file.exists():
            return
        piece.file.unlink(missing_ok=True)
        if before:
            piece.file.write_text(json.dumps(before))

    def wait_for_one(self) -> None:
        while True:
            for running in self.running:
                if running.process.poll() is not None or self.clock() > running.deadline:
                    self.finish(running)
                    return
            time.sleep(0.05)

    def finish(self, running: Running) -> None:
        self.running.remove(running)
        piece, status = running.piece, running.process.poll()
        seconds = self.clock() - running.begun
        running.stop()
        running.out.close()
        log = self.work / f"{piece.name}.log"
        text = log.read_text(errors="replace").strip()
        self.results.log(piece.name, text)
        found = results_of(piece.file)
        lines = text.splitlines() or ["it said nothing"]
        state, detail = judged(piece, status, seconds < piece.limit, lines, found)
        self.keep(piece, state, detail, seconds, found, lines[-30:])

    def record(
        self,
        piece: Piece,
        status: str,
        detail: str,
        seconds: float = 0,
        found: list | dict | None = None,
        lines: list[str] | None = None,
    ) -> None:
        record = {
            "piece": piece.name,
            "part": piece.part,
            "kind": piece.kind,
            "what": piece.what,
            "status": status,
            "seconds": round(seconds, 1),
            "detail": detail,
        }
        if lines and (status == "failed" or piece.quoted):
            record["said"] = lines
        if found is not None:
            record["results"] = found
        self.results.add(record)
        self.learn(record)

    def keep(self, piece: Piece, status: str, detail: str, seconds: float = 0, *more) -> None:
        self.record(piece, status, detail, seconds, *more)
        left_out = self.caches.keep_new()
        self.page()
        self.tell(piece.name, status, seconds, detail)
        if left_out:
            self.say(left_out)

    def tell(self, name: str, status: str, seconds: float, detail: str) -> None:
        self.say(f"{name:<34} {status:<12} {seconds:6.1f} s  {detail[:150]}")
