"""Goes through the pieces on a device made of the host, with some that crash, hang and come too late
on purpose."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

from caches import Caches
from page import write_page
from pieces import COMPILED, PARTS, Piece, Places, all_pieces
from results import Results
from runner import Runner

# Some of each kind: elementwise, a reduction, a library's, one that reads by index, a composite.
OPS = ("add", "layer_norm", "linear", "embedding", "cross_entropy_loss", "batch")
# Without and with data that decide.
MODELS = ("mlp", "feedback_adaptive")
STEPS = ["--steps", "3"]
LIMIT = 400
TOO_LONG = 10 * LIMIT

# As it stands on some machines: one tool serves, one refuses the device.
SANITIZER = """#!/bin/sh
case "$*" in *racecheck*) echo '========= Error: Device not supported'; exit 1;; esac
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""
REFUSED = "========= Error: Device not supported"


def on_host(piece: Piece, places: Places) -> Piece:
    """The same piece, smaller, on what this machine has."""
    command = ["small" if word == "full" else word for word in piece.command]
    peers = piece.part.startswith("peers")
    if piece.part == "conformance":
        command += ["--small"]
    if piece.part.startswith("models-"):
        command += [*STEPS, "--narrow"]
    if piece.part.startswith("compare-") or peers:
        command[command.index("cuda")] = "cpu"
        command += ["--rounds", "7"]
    if piece.part.startswith("compare-") or piece.part == "allocations":
        command[0] = str(places.bundle / "bin" / Path(command[0]).name)
    if piece.part == "peers-compiled":  # for minutes, and without a GPU
        command = [word for word in command if word not in COMPILED]
        command.insert(command.index("--peers") + 1, "eager")
    # Kernels of the host are slow.
    environment = piece.environment | {"METRONOME_LAUNCH_LIMIT": ""}
    return replace(piece, command=command, environment=environment, about=2)


def is_rehearsed(piece: Piece) -> bool:
    """Not what others show as well: full scale is small here, so one model stands for it, and tools
    watch what conformance has run, so two ops are enough."""
    if piece.part == "sanitizers":
        return piece.name.endswith(OPS[:2])
    if "full" in piece.name.split("-"):
        return piece.name.endswith(MODELS[0]) and not piece.part.startswith("peers")
    return True


def planted(places: Places) -> list[Piece]:
    def of(part: str, name: str, code: str, **more) -> Piece:
        command = [places.python, "-c", code]
        return Piece(name, part, f"planted to {name}", command, kind=name, **more)

    dies = f"import os; print('before', flush=True); os.kill(os.getpid(), {int(signal.SIGSEGV)})"
    sleeps = "import time; print('before', flush=True); time.sleep(600)"
    return [
        of("conformance", "crash", dies, about=1, limit=30, together=True),
        of("models-small", "hang", sleeps, about=1, limit=2),
        of("compare-full", "come-late", "print('at last')", about=TOO_LONG, limit=30),
    ]


def pieces_of(places: Places) -> list[Piece]:
    places = replace(
        places,
        ops=[op for op in OPS if op in places.ops],
        models=[model for model in MODELS if model in places.models],
    )
    tools = places.work / "tools"
    tools.mkdir()
    (tools / "compute-sanitizer").write_text(SANITIZER)
    (tools / "compute-sanitizer").chmod(0o755)
    path = {"PATH": f"{tools}:{os.environ['PATH']}"}
    rehearsed = [on_host(piece, places) for piece in all_pieces(places) if is_rehearsed(piece)]
    pieces = [*planted(places), *rehearsed]
    pieces.sort(key=lambda piece: PARTS.index(piece.part))
    return [
        replace(piece, environment=piece.environment | path) if piece.needs else piece
        for piece in pieces
    ]


# What cannot pass here, and what it says.
EXPECTED = {
    "crash": ("failed", "ended by SIGSEGV; its last line: before"),
    "hang": ("failed", "hangs: it took more than 2 s; its last line: before"),
    "come-late": ("unfinished", f"not begun: it takes about {TOO_LONG} s, "),
    "racecheck": ("unavailable", REFUSED),
    "allocations": ("unavailable", ""),  # CUPTI needs a GPU
    "peers": ("unavailable", ""),  # without all of PyTorch
}


def is_expected(record: dict) -> bool:
    name = record["piece"]
    state, detail = EXPECTED.get(name) or EXPECTED.get(name.split("-")[0]) or ("passed", "")
    if state == "unavailable" and record["status"] == "passed":
        return name.split("-")[0] in ("peers", "allocations")
    return record["status"] == state and record["detail"].startswith(detail)


def rehearse(report, places: Places, who: dict) -> None:
    begun = time.monotonic()
    folder = places.work / "results"
    pieces = pieces_of(places)

    def run(pieces: list[Piece]) -> Results:
        results = Results(folder, who)
        caches = Caches(places.bundle, places.work, folder)
        end = time.monotonic() + LIMIT
        # Kernels of the host include its headers: they lie below the working folder.
        Runner(pieces, results, caches, places.work, Path.cwd(), end, report.note).run()
        write_page(results)
        return results

    results = run(pieces)
    for record in results.records.values():
        text = f"{record['piece']}: {record['status']}: {record['detail'][:150]}"
        report.check(is_expected(record), text)
    missing = {piece.name for piece in pieces} - set(results.records)
    report.check(not missing, f"pieces without a record: {', '.join(missing) or 'none'}")
    page = (folder / "gpu-check.md").read_text()
    for name in ("crash", "hang", "come-late"):
        told = name in page and EXPECTED[name][1] in page
        report.check(told, f"the page names what was planted to {name}, and why")
    profiles = [piece.name.split("-", 2)[1:] for piece in pieces if piece.part == "profiles"]
    shown = all(f"### {model}, {scale}: " in page for scale, model in profiles)
    shown = shown and len(profiles) == len(MODELS) + 1
    report.check(shown, "the page shows where each model's step spends its time")
    results.out.close()

    # Called again, with time for what came too late: nothing else is run.
    again = run([replace(piece, about=1) if piece.name == "come-late" else piece for piece in pieces])
    late = again.records["come-late"]
    report.check(late["status"] == "passed", f"called again, what came late {late['status']}")
    lines = (folder / "gpu-check.jsonl").read_text().splitlines()
    twice = sum('{"begun": "crash"}' in line for line in lines)
    report.check(twice == 1, f"what crashed was run {'once' if twice == 1 else twice} in two calls")
    again.out.close()
    report.note(f"the rehearsal took {time.monotonic() - begun:.0f} s")
