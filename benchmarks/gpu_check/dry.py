"""What can be checked of the bundle without a GPU."""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from pieces import Piece, Places, all_pieces, chosen_pieces, places_of
from plan import MOST_MINUTES, needed_minutes, plan
from rehearsal import go_through, rehearse

# What programs and libraries load by name when they need it, beside what `ldd` shows.
LOADED_LATE = (
    "libcublasLt.so.13",
    "libcudnn_graph.so.9",
    "libnvrtc.so.13",
    "libnvrtc-builtins.so.13.0",
    "libcupti.so.13",
    "libtorch_cuda.so",
)
# So that nothing begins to run where there is a GPU.
HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}


class Report:
    def __init__(self) -> None:
        self.wrong = 0

    def check(self, right: bool, text: str) -> None:
        self.wrong += not right
        print(f"{'ok     ' if right else 'WRONG  '}{text}", flush=True)

    def note(self, text: str) -> None:
        print(f"note   {text}", flush=True)


def linked(file: Path, libraries: str) -> dict[str, str]:
    """Library -> where the loader finds it, "" where it does not."""
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
    said = subprocess.run(["ldd", str(file)], capture_output=True, text=True, env=environment)
    found = {}
    for line in said.stdout.splitlines():
        name, arrow, place = line.strip().partition(" => ")
        if arrow:
            path = place.split(" (")[0]
            found[name] = os.path.realpath(path) if path.startswith("/") else ""
    return found


def lies_elsewhere(path: str, libraries: str) -> bool:
    """Where only the machine that built the programs has it."""
    folders = [os.path.realpath(folder) for folder in libraries.split(":") if folder]
    return not any(path.startswith(folder + "/") for folder in [*folders, "/lib", "/usr/lib"])


def find(name: str, libraries: str) -> str | None:
    for folder in libraries.split(":"):
        if folder and (Path(folder) / name).exists():
            return str(Path(folder) / name)
    try:
        known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    except OSError:
        return None
    lines = [line for line in known.splitlines() if f"\t{name} " in line]
    return lines[0].split(" => ")[1] if lines else None


def check_program(report: Report, program: Path, libraries: str) -> None:
    found = linked(program, libraries)
    strange = [
        f"{name}: {path or 'not found'}"
        for name, path in found.items()
        if not path or lies_elsewhere(path, libraries)
    ]
    report.check(not strange, ", ".join([f"{program.name} finds its libraries", *strange]))
    report.check(b".nv_fatbin" in program.read_bytes(), f"{program.name} holds kernels")


def check_libraries(report: Report, programs: list[Path], libraries: str, gpu: bool) -> None:
    tell = report.check if gpu else lambda right, text: right or report.note(text)
    for name in LOADED_LATE:
        path = find(name, libraries)
        tell(path is not None, f"{name} is {path or 'not found, but a GPU needs it'}")
    torch_cuda = find("libtorch_cuda.so", libraries)
    theirs = linked(Path(torch_cuda), libraries) if torch_cuda else {}
    missing = [name for name, path in theirs.items() if not path]
    tell(not missing, f"libtorch_cuda.so lacks {', '.join(missing) or 'nothing'}")
    # One CUDA runtime in a process: it is the owner of the device's context.
    ours = {linked(program, libraries).get("libcudart.so.13") for program in programs}
    ours |= {path for name, path in theirs.items() if name.startswith("libcudart.so") and path}
    report.check(len(ours) == 1, f"one CUDA runtime: {', '.join(map(str, ours))}")


def without_gpu(piece: Piece) -> Piece:
    """Its command alone, as if there were no GPU: one that is understood says so."""
    command = piece.program()
    if piece.resumes:  # in no time: it starts nobody, and keeps nothing
        command = [*command[: command.index("--json")], "--limit", "0"]
    environment = piece.environment | HIDDEN
    alone = {"gate": None, "needs": None, "resumes": False, "about": 2}
    return replace(piece, command=command, environment=environment, **alone)


def check_commands(report: Report, pieces: list[Piece], places: Places, who: dict) -> None:
    """One of each kind."""
    first = {piece.kind: piece for piece in reversed(pieces)}.values()
    folder = places.work / "commands"
    outcomes = go_through(list(map(without_gpu, first)), places, folder, who, lambda text: None)
    for piece in first:
        outcome = outcomes[piece.name]
        right = outcome.startswith("passed: " if piece.resumes else "unavailable: ")
        report.check(right, f"{piece.name} is understood ({outcome[:160]})")


def check_plan(report: Report, pieces: list[Piece]) -> None:
    needed = needed_minutes(pieces)
    report.check(needed < MOST_MINUTES, f"what must be there is reckoned to take {needed:.1f} min")
    for line in plan(pieces):
        report.note(line)


def dry(bundle: Path, host: Path | None, parts: list[str], who: dict) -> int:
    """Checks; goes through the pieces where there are programs that run on the host; and says what
    each part would do. Without `parts` all are checked. Returns the exit status."""
    report = Report()
    libraries = os.environ["METRONOME_LIBRARIES"]
    programs = sorted((bundle / "bin").iterdir())
    with tempfile.TemporaryDirectory(prefix="metronome-dry-") as name:
        places = places_of(bundle, Path(name), Path(name) / "tuning.json")
        for program in programs:
            check_program(report, program, libraries)
        check_libraries(report, programs, libraries, who["device"] is not None)
        kernels = len(list((bundle / "kernels").glob("*.cubin")))
        report.check(kernels > 0, f"{kernels} kernels are compiled ahead")
        pieces = all_pieces(places)
        check_commands(report, chosen_pieces(parts, pieces), places, who)
        check_plan(report, pieces)
        if host:
            rehearse(report, replace(places, programs=host.resolve()), who)
    print(f"device  {who['device'] or 'none: the parts would report themselves as unavailable'}")
    if shutil.which("compute-sanitizer") is None:
        print("sanitizers     are unavailable here: there is no compute-sanitizer")
    print(f"python  {sys.executable}")
    print(f"dry run: {report.wrong} wrong")
    return 1 if report.wrong else 0
