"""Goes through the pieces on a device made of the host, with some that crash, hang and come too late
on purpose."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from caches import Caches
from page import write_page
from pieces import Piece, Places, all_pieces
from results import Results
from runner import Runner

# Some of each kind: elementwise, a reduction, a library's, one that reads by index, a composite.
OPS = ["add", "layer_norm", "linear", "embedding", "cross_entropy_loss", "batch"]
# Without and with data that decide.
MODELS = ["mlp", "feedback_adaptive"]
LIMIT = 400
TOO_LONG = 10 * LIMIT

# As it stands on some machines: one tool serves, one refuses the device.
REFUSED = "========= Error: Device not supported"
SANITIZER = f"""#!/bin/sh
case "$*" in *racecheck*) echo '{REFUSED}'; exit 1;; esac
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""

# What makes a piece small, by its part or the first word of that.
SMALL = {
    "conformance": ["--small"],
    "models": ["--steps", "3", "--host"],
    "compare": ["--rounds", "7"],
    "peers": ["--rounds", "7"],
    "training": ["--epochs", "1"],
    # The last `--peers` counts: those of the piece compile for minutes, and need a GPU.
    "peers-compiled": ["--rounds", "7", "--peers", "eager"],
    "peers-autotuned": ["--rounds", "7", "--peers", "eager"],
}


def on_host(piece: Piece, places: Places, tools: Path) -> Piece:
    """The same piece, smaller, on what this machine has."""
    first = piece.part.split("-")[0]
    words = {"full": "small"}
    if first in ("compare", "peers", "training"):
        words["cuda"] = "cpu"
    command = [words.get(word, word) for word in piece.command]
    command += SMALL.get(piece.part) or SMALL.get(first, [])
    if first in ("compare", "allocations", "training"):
        command[0] = str(places.bundle / "bin" / Path(command[0]).name)
    # Kernels of the host are slow, and groups would be compiled.
    environment = {"METRONOME_LAUNCH_LIMIT": "", "PATH": f"{tools}:{os.environ['PATH']}"}
    if first in ("models", "profiles"):
        environment["METRONOME_WITHOUT"] = "loosen,fuse"
    return replace(piece, command=command, environment=piece.environment | environment, about=2)


def is_rehearsed(piece: Piece) -> bool:
    """Not what others show as well: full scale is small here, so one model stands for it, and tools
    watch what conformance has run, so two ops are enough."""
    if piece.part == "training":
        return piece.name == "train-digits"
    if piece.part == "sanitizers":
        return piece.name.endswith(tuple(OPS[:2]))
    if "full" in piece.name.split("-"):
        return piece.name.endswith(MODELS[0]) and not piece.part.startswith("peers")
    return True


def planted(name: str, part: str, code: str, **more) -> Piece:
    return Piece(name, part, f"planted to {name}", [sys.executable, "-c", code], kind=name, **more)


DIES = "import os; print('before', flush=True); os.kill(os.getpid(), 11)"
SLEEPS = "import time; print('before', flush=True); time.sleep(600)"
# First, so that all others come after them.
PLANTED = [
    planted("crash", "conformance", DIES, about=1, limit=30, together=True),
    planted("hang", "models-small", SLEEPS, about=1, limit=2),
    planted("come-late", "compare-full", "print('at last')", about=TOO_LONG, limit=30),
]
# How the outcome begins of pieces whose names begin so, where they cannot simply pass here.
EXPECTED = {
    "crash": "failed: ended by SIGSEGV; its last line: before",
    "hang": "failed: hangs: it took more than 2 s; its last line: before",
    "come-late": f"unfinished: not begun: it takes about {TOO_LONG} s, ",
    "racecheck": f"unavailable: {REFUSED}",
    "allocations": ("unavailable: ", "passed: "),  # CUPTI needs a GPU
    "peers": ("unavailable: ", "passed: "),  # without all of PyTorch
}


def expected(piece: Piece) -> str | tuple[str, ...]:
    return next((text for name, text in EXPECTED.items() if piece.name.startswith(name)), "passed: ")


def pieces_of(places: Places) -> list[Piece]:
    tools = places.work / "tools"
    tools.mkdir()
    (tools / "compute-sanitizer").write_text(SANITIZER)
    (tools / "compute-sanitizer").chmod(0o755)
    pieces = all_pieces(replace(places, ops=OPS, models=MODELS))
    return [*PLANTED, *(on_host(piece, places, tools) for piece in pieces if is_rehearsed(piece))]


def go_through(
    pieces: list[Piece], places: Places, folder: Path, who: dict, say: Callable[[str], None]
) -> dict[str, str]:
    """Piece -> what came of it: by the runner that a GPU's pieces have, with results in `folder`."""
    results = Results(folder, who)
    caches = Caches(places.bundle, places.work, folder)
    end = time.monotonic() + LIMIT
    # Kernels of the host include its headers: they lie below the working folder.
    Runner(pieces, results, caches, places.work, Path.cwd(), end, say).run()
    write_page(results)
    results.out.close()
    return {name: f"{of['status']}: {of['detail']}" for name, of in results.records.items()}


def rehearse(report, places: Places, who: dict) -> None:
    begun = time.monotonic()
    folder = places.work / "results"
    pieces = pieces_of(places)
    outcomes = go_through(pieces, places, folder, who, report.note)
    for piece in pieces:
        outcome = outcomes.get(piece.name, "no record")
        report.check(outcome.startswith(expected(piece)), f"{piece.name}: {outcome[:160]}")
    page = (folder / "gpu-check.md").read_text()
    for piece in PLANTED:
        told = piece.name in page and expected(piece).split(": ", 1)[1] in page
        report.check(told, f"the page names what was planted to {piece.name}, and why")
    profiles = [piece.name.split("-", 2)[1:] for piece in pieces if piece.part == "profiles"]
    shown = all(f"### {model}, {scale}: " in page for scale, model in profiles)
    shown = shown and len(profiles) == len(MODELS) + 1
    report.check(shown, "the page shows where each model's step spends its time")

    # Called again, with time for what came too late: nothing else is run.
    again = [replace(piece, about=1) if piece.name == "come-late" else piece for piece in pieces]
    late = go_through(again, places, folder, who, report.note)["come-late"]
    report.check(late.startswith("passed: "), f"called again, what came late: {late}")
    lines = (folder / "gpu-check.jsonl").read_text().splitlines()
    twice = sum('{"begun": "crash",' in line for line in lines)
    report.check(twice == 1, f"what crashed was run {'once' if twice == 1 else twice} in two calls")
    report.note(f"the rehearsal took {time.monotonic() - begun:.0f} s")
