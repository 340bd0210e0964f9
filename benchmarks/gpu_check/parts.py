"""The parts of the check: what each runs, how long it may take, and what it needs."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from peers.sizes import MODELS

SANITIZED = ("gated_routing", "feedback_fixed")


@dataclass(frozen=True)
class Piece:
    """One command, in a process of its own. It may write its results to `json`; exit status 0
    passes, 1 fails, and 3 says on its last line why it cannot run here. `resumes`: it takes a
    `--limit` in seconds, and run again it goes on where it was stopped.
    """

    name: str
    what: str
    command: list[str]
    seconds: int  # most it may take
    json: Path | None = None
    needs: str | None = None  # a tool that may be missing
    resumes: bool = False
    refusals: tuple[str, ...] = ()  # what a tool says that the device is not for
    environment: dict[str, str] = field(default_factory=dict)

    def program(self) -> list[str]:
        """The command without the tool that watches it."""
        if self.needs is None:
            return self.command
        return self.command[self.command.index("--") + 1 :]


def all_parts(bundle: Path, work: Path, python: str, libraries: str) -> dict[str, list[Piece]]:
    """Each part's pieces, in the order in which they are worth the time. `libraries` is the library
    path of the bundle's programs; the peers' Python keeps its own."""
    environment = {
        "LD_LIBRARY_PATH": libraries,
        "METRONOME_TUNING": str(work / "tuning.json"),
        "METRONOME_CACHE": str(work / "cache"),
    }

    def program(name: str, what: str, seconds: int, path: str, *arguments: str) -> Piece:
        file = work / f"{name}.json"
        command = [str(bundle / "bin" / path), *arguments, "--json", str(file)]
        return Piece(name, what, command, seconds, file, environment=environment)

    def models(name: str, what: str, seconds: int, *arguments: str) -> Piece:
        return program(name, what, seconds, "gpu_models", *arguments)

    def checks_of(name: str, what: str, seconds: int, *arguments: str) -> Piece:
        what = f"replay, stepwise and eager steps of {what}"
        return models(name, what, seconds, *arguments, "--checks", "replay", "eager")

    def sanitizer(model: str) -> Piece:
        command = ["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9"]
        # Errors of calls are not what it is for: a question that is answered "not yet" is one.
        command += ["--report-api-errors", "no", "--", str(bundle / "bin" / "gpu_models")]
        command += ["--models", model, "--scale", "small", "--checks", "replay", "--steps", "3"]
        return Piece(
            f"sanitizer-{model}",
            f"compute-sanitizer (memcheck) over three replayed steps of {model}",
            command,
            90,
            needs="compute-sanitizer",
            refusals=("Device not supported", "not supported on this device", "Unable to find"),
            # What is timed under it must not serve the measurements.
            environment=environment | {"METRONOME_TUNING": str(work / "sanitizer-tuning.json")},
        )

    def compare(scale: str, models: Iterable[str] = ()) -> Piece:
        name = "-".join(["compare", scale, *models])
        what = f"planned steps of {', '.join(models) or 'all models'} beside libtorch's eager ones"
        arguments = ["compare", *models, "--device", "cuda", "--scale", scale]
        return program(name, f"{what}, {scale} scale", 90, "metronome", *arguments)

    def peers(scale: str, *more: str) -> Piece:
        name = "-".join(["peers", scale, *(option.strip("-") for option in more)])
        file, seconds = work / f"{name}.json", 240
        command = [python, "-m", "peers", "--device", "cuda", "--scale", scale, *more]
        command += ["--cache", str(work / "peers"), "--limit", str(seconds - 15)]
        precision = "TF32" if more else "IEEE fp32"
        return Piece(
            name,
            f"PyTorch (eager, compiled, captured), JAX and Metronome: {scale} scale, {precision}",
            [*command, "--json", str(file)],
            seconds,
            file,
            resumes=True,
            environment={
                "METRONOME_PEER": str(bundle / "bin" / "metronome_peer"),
                "METRONOME_LIBRARY_PATH": libraries,
                "METRONOME_TUNING": environment["METRONOME_TUNING"],
                "METRONOME_CACHE": environment["METRONOME_CACHE"],
            },
        )

    moving = "batch norm, dropout, clipping and a schedule: nothing is frozen, nothing left behind"
    steered = "a loop and branches that data decide: masked, flat and nested; what skipping saves"
    return {
        "conformance": [
            program("conformance", "every op's kernels against libtorch's", 180, "gpu_conformance")
        ],
        "models": [
            models("models-moving", moving, 60, "--checks", "untouched", "schedule"),
            models("models-control", steered, 60, "--checks", "control"),
            checks_of("models-small", "all models at small scale", 120, "--scale", "small"),
            *(
                checks_of(
                    f"models-full-{m}", f"{m} at full scale", 60, "--scale", "full", "--models", m
                )
                for m in MODELS
            ),
        ],
        "allocations": [
            program("allocations", "CUDA calls during replay", 90, "gpu_allocations"),
        ],
        "sanitizer": [sanitizer(model) for model in SANITIZED],
        "compare": [compare("small"), *(compare("full", [model]) for model in MODELS)],
        "peers": [peers("small"), peers("full"), peers("full", "--tf32")],
    }
