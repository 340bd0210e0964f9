"""The pieces of the check, in the order in which they are worth the time: what each runs, how long
that takes, and what it needs."""

import os
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from peers.sizes import MODELS as PEERS_MODELS

# A device's time is for the smallest steps and the largest.
SCALES = ("small", "full")
# Seconds of a step's first launch, after which it hangs: the process says which form, and ends.
LAUNCH_LIMIT = "5"
TOOLS = ("memcheck", "racecheck", "synccheck")
# Beside eager, which always takes part: first who is ready soon, then who compiles for minutes.
READY_SOON = ("graph", "metronome")
COMPILED = ("compile", "compile_reduce_overhead", "jax")
AUTOTUNED = ("compile_max_autotune",)
# The tasks of `metronome train`, each with the seconds that it takes; their data lie in the bundle.
TASKS = {"digits": 20, "mnist": 30, "text": 45}


@dataclass(frozen=True)
class Piece:
    """One command, in a process of its own. It may write JSON, or JSON lines, to `file`. Exit status
    0 passes, and 3 says on its last line why it cannot run here."""

    name: str
    part: str
    what: str
    command: list[str]
    about: float  # seconds, as long as none of its kind has run
    limit: float  # seconds after which it hangs
    kind: str  # pieces of one kind take about as long
    file: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)
    needs: str | None = None  # a tool that may be missing
    gate: str | None = None  # where that piece is unavailable, this one is for the same reason
    together: bool = False  # with others of its part at once: nothing is timed
    kept: bool = False  # time is kept for it: the first call must reach it
    resumes: bool = False  # takes a `--limit` in seconds, and goes on where it was stopped
    refusals: tuple[str, ...] = ()  # what is said where it cannot be done
    quoted: bool = False  # its last lines are kept, as they are its results

    def program(self) -> list[str]:
        """The command without the tool that watches it."""
        if self.needs is None:
            return self.command
        return self.command[self.command.index("--") + 1 :]


@dataclass(frozen=True)
class Places:
    bundle: Path
    programs: Path  # the bundle's, or those that run on the host
    work: Path  # for this machine alone
    tuning: Path  # kernel choices that were timed
    python: str
    libraries: str  # library path of the programs; the peers' Python keeps its own
    ops: list[str]
    models: list[str]
    commit: str = "unknown"

    def program(self, name: str) -> str:
        return str(self.programs / name)

    def environment(self) -> dict[str, str]:
        return {
            "LD_LIBRARY_PATH": self.libraries,
            "METRONOME_TUNING": str(self.tuning),
            "METRONOME_CACHE": str(self.work / "cache"),
            "METRONOME_LAUNCH_LIMIT": LAUNCH_LIMIT,
        }

    def environment_of_ops(self) -> dict[str, str]:
        """Kernels of single cases are many, and no step uses them: they stay on this machine."""
        return self.environment() | {"METRONOME_CACHE": str(self.work / "cache-of-ops")}


def places_of(bundle: Path, work: Path, tuning: Path) -> Places:
    """Those of the bundle, started by run.sh."""
    return Places(
        bundle=bundle,
        programs=bundle / "bin",
        work=work,
        tuning=tuning,
        python=sys.executable,
        libraries=os.environ["METRONOME_LIBRARIES"],
        ops=(bundle / "ops").read_text().split(),
        models=(bundle / "models").read_text().split(),
        commit=(bundle / "commit").read_text().strip(),
    )


class Maker:
    """Makes pieces of the programs. All but the device's own wait for its word."""

    def __init__(self, places: Places) -> None:
        self.places = places

    def piece(self, part: str, name: str, what: str, command: list[str], **more) -> Piece:
        file = self.places.work / f"{name}.json"
        environment = self.places.environment() | more.pop("environment", {})
        return Piece(
            name=name,
            part=part,
            what=what,
            command=[self.places.program(command[0]), *command[1:], "--json", str(file)],
            file=file,
            environment=environment,
            **{"kind": part, "gate": "device"} | more,
        )

    def device(self) -> list[Piece]:
        what = "the GPU, its libraries, and bytes that are copied there and back"
        command = ["gpu_device"]
        more = {"about": 2, "limit": 60, "gate": None, "kept": True}
        return [self.piece("device", "device", what, command, **more)]

    def probe(self) -> list[Piece]:
        """Each call of the driver alone; those that may take their process along in one of theirs."""
        whats = {
            "graphs": "conditional nodes, libraries in them, mapped numbers, times of launches",
            "failed-body": "memory and a graph after a body that failed",
            "after-records": "a conditional node after CUPTI ran, and its records of a graph",
            "nccl": "collectives of one rank, in graphs",
        }
        return [
            self.piece(
                "probe",
                f"probe-{name}",
                f"the driver: {what}",
                ["gpu_device", "--probe", name],
                about=2,
                limit=60,
                kept=True,
            )
            for name, what in whats.items()
        ]

    def engines(self) -> list[Piece]:
        what = "engines of convolutions, those too that steps are not offered: which would be faster"
        command = ["gpu_device", "--probe", "engines", "--scale", "full"]
        more = {"about": 60, "limit": 240, "environment": {"METRONOME_LOG": "info"}}
        return [self.piece("engines", "engines", what, command, **more)]

    def conformance(self) -> list[Piece]:
        def of(op: str) -> Piece:
            more = {"about": 6, "limit": 90, "together": True}
            more["environment"] = self.places.environment_of_ops()
            if op == "group":  # compiles a kernel for each of its cases
                more |= {"about": 40, "limit": 200, "kind": "conformance of groups"}
            what = f"kernels of {op} against libtorch's"
            return self.piece("conformance", f"op-{op}", what, ["gpu_conformance", op], **more)

        # The long one first: the others go beside it.
        ops = sorted(self.places.ops, key=lambda op: op != "group")
        return [of(op) for op in ops]

    def models(self, part: str, name: str, what: str, *arguments: str, **more) -> Piece:
        return self.piece(part, name, what, ["gpu_models", *arguments], **more)

    def models_small(self) -> tuple[list[Piece], list[Piece], list[Piece]]:
        """A piece of each model that shows whether it is right; models made for checks; and each of
        the forms that `compare` has timed."""

        def of(model: str, forms: str, what: str) -> Piece:
            arguments = ["--models", model, "--scale", "small", "--forms", forms]
            return self.models(
                "models-small",
                f"small-{model}-{forms}",
                f"{model}, small: replay, stepwise and eager steps; {what}",
                *(*arguments, "--checks", "replay", "eager"),
                kind=f"models-small {forms}",
                about=10,
                limit=90,
            )

        moving = "batch norm, dropout, clipping, a schedule: nothing frozen, nothing left behind"
        steered = "a loop and branches that data decide: every form; what skipping saves"
        common = {"about": 15, "limit": 90}
        first = [of(m, "masked", "masked, one stream") for m in self.places.models]
        made = [
            self.models(
                *("models-small", "moving", moving, "--checks", "untouched", "schedule"),
                **common,
            ),
            self.models(*("models-small", "control", steered, "--checks", "control"), **common),
        ]
        every = [of(m, "every", "every form that is timed") for m in self.places.models]
        return first, made, every

    def large(self) -> list[str]:
        """Models at full scale, those that take longest last."""
        return sorted(self.places.models, key=lambda model: model.startswith("conv"))

    def models_full(self) -> list[Piece]:
        return [
            self.models(
                "models-full",
                f"full-{model}",
                f"{model}, full: replay, stepwise and eager steps",
                *("--models", model, "--scale", "full", "--checks", "replay", "eager"),
                about=25,
                limit=120,
            )
            for model in self.large()
        ]

    def compare(self, scale: str) -> list[Piece]:
        def of(model: str) -> Piece:
            small = scale == "small"
            # Many engines are timed, and steps in which rounding decides are held to f64.
            convolves = not small and model.startswith("conv")
            return self.piece(
                f"compare-{scale}",
                f"compare-{scale}-{model}",
                f"{model}, {scale}: planned steps beside libtorch's eager ones, and their floor",
                ["metronome", "compare", model, "--device", "cuda", "--scale", scale],
                about=4 if small else 40 if convolves else 14,
                limit=90 if small else 150,
                kind=f"compare-{scale}" + (" convolutions" if convolves else ""),
                kept=small,
            )

        return [of(model) for model in self.large()]

    def profiles(self) -> list[Piece]:
        return [
            self.piece(
                "profiles",
                f"profile-{scale}-{model}",
                f"{model}, {scale}: a step kernel by kernel",
                ["metronome", "plan", model, "--scale", scale, "--device", "cuda", "--profile"],
                about=2 if scale == "small" else 4,
                limit=90,
                kind=f"profiles {scale}",
            )
            for scale in ("small", "full")
            for model in self.places.models
        ]

    def peer(self, part: str, model: str, scale: str, *more: str, **changes) -> Piece:
        """One model in a piece of its own: the peers' processes end with it."""
        name = "-".join([part, scale, model])
        places, file = self.places, self.places.work / f"{name}.json"
        command = [places.python, "-m", "peers", "--device", "cuda", "--scale", scale]
        command += ["--models", model, "--cache", str(places.work / "peers"), *more]
        return Piece(
            name=name,
            part=part,
            command=[*command, "--json", str(file)],
            kind=f"{part} {scale}",
            file=file,
            gate="device",
            resumes=True,
            environment={
                "METRONOME_PEER": str(places.bundle / "bin" / "metronome_peer"),
                "METRONOME_LIBRARY_PATH": places.libraries,
                "METRONOME_COMMIT": places.commit,
                # Before the folders where torch may lie.
                "PYTHONPATH": f"{places.bundle}:{os.environ.get('PYTHONPATH', '')}".strip(":"),
                # All but the library path, which the peers' Python keeps its own of.
                **{k: v for k, v in places.environment().items() if k != "LD_LIBRARY_PATH"},
            },
            **changes,
        )

    def peers(self) -> tuple[list[Piece], list[Piece], list[Piece], list[Piece]]:
        """Who is ready soon; who compiles for minutes; who tries kernels; and all in TF32."""
        models = [model for model in self.large() if model in PEERS_MODELS]

        def soon(model: str, scale: str) -> Piece:
            what = f"{model}, {scale}, IEEE fp32: PyTorch eager and captured, Metronome"
            about = 20 if scale == "small" else 30
            more = ("--peers", *READY_SOON)
            return self.peer("peers", model, scale, *more, what=what, about=about, limit=150)

        def compiled(model: str, scale: str) -> Piece:
            what = f"{model}, {scale}, IEEE fp32: torch.compile, its reduce-overhead, JAX"
            more = ("--peers", *COMPILED)
            return self.peer("peers-compiled", model, scale, *more, what=what, about=75, limit=300)

        def autotuned(model: str, scale: str) -> Piece:
            what = f"{model}, {scale}, IEEE fp32: torch.compile's max-autotune"
            more = ("--peers", *AUTOTUNED)
            return self.peer("peers-autotuned", model, scale, *more, what=what, about=75, limit=300)

        def tf32(model: str) -> Piece:
            what = f"{model}, full, TF32: PyTorch (eager, compiled, captured), JAX, Metronome"
            return self.peer(
                "peers-tf32", model, "full", "--tf32", what=what, about=130, limit=300
            )

        return (
            [soon(model, scale) for scale in SCALES for model in models],
            [compiled(model, scale) for scale in SCALES for model in models],
            [autotuned(model, scale) for scale in SCALES for model in models],
            [tf32(model) for model in models],
        )

    def training(self) -> list[Piece]:
        """A task's training, and the same by libtorch's eager mode; each fed from the host."""
        data = self.places.bundle / "data"
        files = {"DIGITS": "digits.csv", "MNIST": "mnist.csv", "TEXT": "text"}
        environment = {
            f"METRONOME_{name}": str(data / file) if (data / file).exists() else ""
            for name, file in files.items()
        }
        return [
            Piece(
                name=f"train-{task}",
                part="training",
                what=f"{task}: a whole training beside libtorch's eager one",
                command=[
                    *(self.places.program("metronome"), "train", task),
                    *("--device", "cuda", "--no-save"),
                ],
                about=about,
                limit=180,
                kind=f"training of {task}",
                environment=self.places.environment() | environment,
                gate="device",
                refusals=("is empty, as ./metronome could not fetch",),
                quoted=True,
            )
            for task, about in TASKS.items()
        ]

    def allocations(self) -> list[Piece]:
        return [
            self.piece(
                "allocations",
                f"allocations-{model}",
                f"{model}: CUDA calls during replay",
                ["gpu_allocations", "--models", model],
                about=12,
                limit=90,
            )
            for model in self.places.models
        ]

    def sanitizers(self) -> list[Piece]:
        """Over small cases of each op. Nothing is tuned: each kernel that could run is run."""
        ops = self.places.ops

        def of(tool: str, op: str) -> Piece:
            watch = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9"]
            if tool == "memcheck":
                # Errors of calls are not what it is for: an answer "not yet" is one.
                watch += ["--report-api-errors", "no"]
            return Piece(
                name=f"{tool}-{op}",
                part="sanitizers",
                what=f"compute-sanitizer ({tool}) over the kernels of {op}",
                command=[*watch, "--", self.places.program("gpu_conformance"), op, "--small"],
                about=15,
                limit=240,
                kind=f"{tool} of groups" if op == "group" else tool,
                # A launch may take long under it.
                environment=self.places.environment_of_ops() | {"METRONOME_LAUNCH_LIMIT": ""},
                needs="compute-sanitizer",
                gate="device" if op == ops[0] else f"{tool}-{ops[0]}",
                together=True,
                refusals=("Device not supported", "not supported on this device", "Unable to find"),
            )

        return [of(tool, op) for tool in TOOLS for op in ops]

    def all(self) -> list[Piece]:
        first, made, every = self.models_small()
        soon, compiled, autotuned, tf32 = self.peers()
        figures = {piece.name: piece for piece in self.compare("small")}
        small = [
            piece
            for model, check in zip(self.places.models, first, strict=True)
            for piece in (check, figures[f"compare-small-{model}"])
        ]
        return [
            *self.device(),
            *self.probe(),
            *small,
            *self.profiles(),
            *self.compare("full"),
            *self.conformance(),
            *made,
            *soon,
            *every,
            *self.models_full(),
            *self.training(),
            *self.allocations(),
            *self.engines(),
            *compiled,
            *self.sanitizers(),
            *autotuned,
            *tf32,
        ]


PARTS = (
    "device",
    "probe",
    "conformance",
    "models-small",
    "compare-small",
    "profiles",
    "compare-full",
    "peers",
    "models-full",
    "training",
    "allocations",
    "engines",
    "peers-compiled",
    "sanitizers",
    "peers-autotuned",
    "peers-tf32",
)
# Calls of less than six minutes, for a machine that is there for a short time: what each runs, by
# patterns of the pieces' names, in that order.
SHORT = {
    "short-a": ("compare-small-*", "compare-full-*", "small-*-masked", "full-*"),
    "short-b": (
        *("peers-full-conv*", "peers-compiled-full-conv*"),
        *("peers-full-*", "peers-compiled-full-*"),
    ),
    "short-c": ("train-*", "allocations-*", "probe-nccl", "engines"),
    "short-d": (
        *("peers-tf32-*", "peers-autotuned-full-*"),
        *(f"{tool}-*" for tool in TOOLS),
    ),
}


def all_pieces(places: Places) -> list[Piece]:
    return Maker(places).all()


def chosen_pieces(names: list[str], pieces: list[Piece]) -> list[Piece]:
    """Those of the parts and short calls of these names, of all parts without any. The device's own
    piece, which tells all others whether there is one, is first."""
    parts = {"device", *(names or PARTS)}
    patterns = ["device", *(pattern for name in names for pattern in SHORT.get(name, ()))]
    found = [p for pattern in patterns for p in pieces if fnmatchcase(p.name, pattern)]
    found += [piece for piece in pieces if piece.part in parts]
    return list({piece.name: piece for piece in found}.values())
