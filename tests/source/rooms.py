"""Which room may include which, and who breaks the order.

A room is a folder of sources that is one library (in ops/ a kind of file is one, too: an op's rules
know no kernel). Bazel's visibility keeps apart what is linked, but lets a file include whatever its
libraries include in turn; so the order is held here, line by line. The folders of ops/ have an order
of their own, as several of them are one library.
"""

import collections
import re

# Each room, with the rooms that it may include besides itself.
_GRAPH = {
    # Elements of two bytes: part of graph/ir, and kernels for devices compute with them too.
    "graph/ir:half": [],
    # What rules of ops are written with: also part of graph/ir.
    "graph/ir:op": [],
    "graph/rules": ["graph/ir:op"],
    "graph/ir": ["graph/ir:op", "graph/rules"],
    # Ops made of others, which passes make.
    "graph/compounds": ["graph/ir"],
    "graph/control": ["graph/ir"],
    "graph/emit": ["graph/ir", "graph/control"],
    "graph/builder": ["graph/ir", "graph/control", "graph/emit"],
    "graph/passes/walk": ["graph/ir", "graph/emit"],
    "graph/passes": ["graph/ir", "graph/compounds", "graph/control", "graph/emit", "graph/passes/walk", "graph/plan:data"],
    "graph/passes/training": ["graph/ir", "graph/control", "graph/emit", "graph/passes", "graph/passes/walk"],
    "graph/plan:data": ["graph/ir"],
    "graph/placement": ["graph/control"],
    "graph/plan": ["graph/ir", "graph/control", "graph/placement", "graph/plan:data"],
    "graph/check": ["graph/ir", "graph/control", "graph/plan:data"],
}
_DECLARED = ["graph/ir", "graph/compounds", "graph/emit"]
_OPS = {
    # The table of elementwise functions: rows alone.
    "ops:rows": [],
    # What kernels for devices are made of, and their bodies: nvcc, NVRTC and g++ compile them, and
    # they see no graph.
    "ops/kernel": ["ops:rows", "graph/ir:half"],
    "ops:kernels": ["ops/kernel"],
    # Rules of ops, and the language made of them.
    "ops": _DECLARED + ["ops/kernel", "ops:rows"],
    "ops/cpu": _DECLARED + ["ops", "ops:rows"],
    "ops/cuda": _DECLARED + ["ops", "ops/kernel", "ops:kernels", "ops:rows"],
    "ops/reference": _DECLARED + ["ops", "ops:rows"],
    # What users bring along: rules for each back end.
    "ops/own": _DECLARED + ["ops", "ops/kernel", "ops/cpu", "ops/cuda"],
}
_PLANNED = _DECLARED + ["graph/plan:data", "ops", "executor/support", "executor/options", "executor/engine"]
_DEVICE = ["executor/cuda/driver", "ops/cuda", "ops/kernel"]
_EXECUTOR = {
    "executor/support": ["graph/ir"],
    "executor/options": ["graph/ir", "ops", "executor/support"],
    "executor/engine": _DECLARED
    + ["graph/plan:data", "ops", "ops/kernel", "ops/cpu", "executor/support"],
    "executor/libtorch": ["graph/ir", "ops/reference", "executor/support"],
    "executor/checkpoint": ["graph/ir", "executor/support"],
    "executor/import/file": ["graph/ir", "ops", "executor/support"],
    "executor/import/aten": _DECLARED + ["ops", "executor/import/file"],
    "executor/import": _DECLARED + ["ops", "executor/import/file", "executor/import/aten"],
    "executor/pages": [],
    "executor/monitor": ["graph/ir", "executor/pages", "executor/support"],
    "executor/record": _DECLARED
    + ["graph/plan:data", "executor/engine", "executor/pages", "executor/support"],
    "executor/run": _PLANNED
    + ["graph/builder", "executor/checkpoint", "executor/libtorch", "executor/record"],
    "executor/cpu": _PLANNED + ["ops/cpu", "ops/kernel"],
    "executor/eager": _PLANNED
    + ["graph/passes", "graph/passes/training", "executor/cpu", "executor/libtorch"]
    + ["ops/kernel", "ops/reference"],
    "executor/cuda/driver": ["graph/ir", "ops/cuda", "executor/support", "executor/engine"],
    "executor/cuda/program": _PLANNED + _DEVICE + ["graph/control"],
    "executor/cuda/capture": _PLANNED
    + _DEVICE
    + ["graph/control", "executor/cuda/program"],
    "executor/cuda/libraries": ["graph/ir", "ops", "executor/support"] + _DEVICE,
    "executor/cuda/runtime": [
        "graph/ir",
        "ops",
        "executor/support",
        "executor/cuda/libraries",
        "executor/cuda/program",
    ]
    + _DEVICE,
    # What exported libraries are built of: kernels, and what they ask for.
    "executor/export/runtime": ["graph/ir", "ops", "ops/cpu", "executor/support"],
    "executor/export": _PLANNED
    + ["executor/checkpoint", "executor/cpu", "executor/run", "executor/export/runtime", "ops/cpu", "ops:rows"],
    "executor/compile": _PLANNED
    + ["graph/builder", "graph/check", "graph/passes", "graph/passes/training", "graph/plan"]
    + ["executor/run", "executor/cpu", "executor/eager", "ops/cpu"]
    + ["executor/cuda/driver", "executor/cuda/capture"],
    "executor/onnx": _PLANNED
    + ["graph/passes", "graph/passes/walk", "executor/run", "executor/compile"],
}
_DISTRIBUTED = {
    "distributed/store": ["graph/ir", "executor/support"],
    "distributed/launch": ["graph/ir", "executor/support", "distributed/store"],
    "distributed/faults": ["graph/ir", "executor/support", "distributed/store"],
    "distributed/collectives": ["graph/ir", "ops", "distributed/faults", "distributed/store"],
    "distributed/ops": _DECLARED
    + ["ops", "ops/cpu", "ops/cuda", "ops/own", "ops/reference", "distributed/collectives"],
    "distributed/join": ["graph/ir", "graph/passes/walk", "ops", "executor/engine"]
    + ["distributed/collectives", "distributed/ops"],
    "distributed/world": ["graph/ir", "executor/run"]
    + ["distributed/store", "distributed/collectives", "distributed/join"],
}
ORDER = {**_GRAPH, **_OPS, **_EXECUTOR, **_DISTRIBUTED}

# Inside ops/, which is few libraries, the floors from the ground up: a file includes its own floor
# and those below. The folders of ops lie between those of FLOORS_BELOW and those of FLOORS_ABOVE; an
# op may include others, as long as no way leads back.
FLOORS_BELOW = [
    {"ops/kernel"},  # and the table of elementwise functions
    {"ops/rules"},
    {"ops/expr"},
    {"ops/cpu", "ops/cuda", "ops/reference"},
]
FLOORS_ABOVE = [
    {"ops", "ops/tables", "ops/own"},  # ops/ops.h: the list of all ops
    {"ops/language"},
    {"ops/layers"},
    {"ops/losses"},
    {"ops/optimizers"},
]
OPS_FLOOR = len(FLOORS_BELOW)

# What users include, and what stands in it: to declare and run models, for authors of ops and layers,
# and for what lies below a device's step.
PUBLIC = "executor/metronome.h"
AUTHORS = "executor/metronome/op.h"
DEVICE = "executor/metronome/device.h"
# Of programs that run on several ranks.
RANKS = "distributed/distributed.h"
# Of programs that take in models of PyTorch's.
IMPORT = "executor/metronome/import.h"
# Of programs that hand out what they trained.
EXPORT = "executor/metronome/export.h"
DOORS = (PUBLIC, AUTHORS, DEVICE, RANKS, IMPORT, EXPORT)
# The same for programs outside of the tree: the headers of include/, each of which includes one of these.
FACADES = {
    "metronome/metronome.h": PUBLIC,
    "metronome/op.h": AUTHORS,
    "metronome/device.h": DEVICE,
    "metronome/distributed.h": RANKS,
    "metronome/import.h": IMPORT,
    "metronome/export.h": EXPORT,
}

# What benchmarks/ may include besides: benchmarks of kernels, and of a device without a graph.
INTERNALS = {
    "distributed/collectives/simulated.h",
    "executor/cuda/driver/driver.h",
    "executor/cuda/driver/null_driver.h",
    "executor/cuda/driver/stopwatch.h",
    "executor/cuda/program/device_state.h",
    "executor/cuda/runtime/nvrtc.h",
    "executor/engine/observer.h",
    "executor/libtorch/convert.h",
    "executor/support/atomic_file.h",
    "graph/compounds/channels_last.h",
    "graph/emit/scope.h",
    "graph/ir/graph.h",
    "graph/ir/op_model.h",
    "graph/placement/placement.h",
    "graph/rules/fusion.h",
    "graph/ir/structural.h",
    "ops/attention/attention.h",
    "ops/batch_norm/batch_norm.h",
    "ops/convolution/convolution.h",
    "ops/cpu/table.h",
    "ops/cuda/collective_call.h",
    "ops/cuda/convolution_call.h",
    "ops/layer_norm/layer_norm.h",
    "ops/matmul/matmul.h",
    "ops/elementwise/elementwise.h",
    "ops/pool/max_pool.h",
    "ops/recurrent/recurrent.h",
    "ops/reference/elements.h",
    "ops/reference/table.h",
    "ops/softmax/softmax.h",
}

# Where headers may include libtorch's: whoever includes them waits for those too.
TORCH_HEADERS = {"executor/eager", "executor/libtorch", "ops/cpu", "ops/own", "ops/reference"}
# Besides, what authors of ops write for libtorch.
TORCH_AUTHORS = {AUTHORS}
# Where besides sources may: feeds and reads, the count of threads that libtorch was told, its store
# and its collectives.
TORCH_SOURCES = {
    "distributed/collectives",
    "distributed/ops",
    "distributed/store",
    "distributed/world",
    "executor/compile",
    "executor/run",
}

# Programs above all rooms: of which of them each includes headers, besides public ones.
ABOVE = {"models": {"models"}, "benchmarks": {"benchmarks", "models"}, "example": set()}
# And which other doors and headers, by folder: verbs that train say whether there is a device.
BESIDES = {
    "models/commands": {DEVICE},
    "benchmarks": {DEVICE, IMPORT, EXPORT, *INTERNALS},
    "example": {AUTHORS, "metronome/op.h"},
}

# Files of a room, at most.
MOST_FILES = 30

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"((?:graph|ops|executor|distributed|models|benchmarks|tests)/[^"]+)"', re.M)
_TORCH = re.compile(r"^[ \t]*#[ \t]*include[ \t]+<((?:ATen|c10|torch)/[^>]+)>", re.M)
# Headers of libtorch that bring all of it.
_WHOLE = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]+<(ATen/(?:ATen|Functions|NativeFunctions|Operators)\.h|torch/\w+\.h)>", re.M
)
_PLAN_DATA = {"graph/plan/schedule.h", "graph/plan/memory_plan.h", "graph/plan/recomputation.h"}
_OP = {f"graph/ir/{file}" for file in ("error.cc", "error.h", "ids.h", "op.h", "type.cc", "type.h")}
# Who may include graph/ir may include these, too.
_BELOW_IR = {"graph/ir:half", "graph/ir:op", "graph/rules"}


def includes(text):
    """The project's own headers that a source includes."""
    return _INCLUDE.findall(text)


def room_of(path):
    """The room that a file lies in."""
    folder, _, name = path.rpartition("/")
    top = path.split("/")[0]
    if path in _PLAN_DATA:
        return "graph/plan:data"
    if path == "graph/ir/half.h":
        return "graph/ir:half"
    if path in _OP:
        return "graph/ir:op"
    if path == "ops/elementwise/elementwise_rows.h":
        return "ops:rows"
    if top == "ops":
        if folder == "ops/kernel":
            return folder
        if name.endswith("_kernels.h") and folder != "ops/cuda":
            return "ops:kernels"
        if folder.startswith("ops/cpu") or name.endswith(("_cpu.cc", "_cpu.h")):
            return "ops/cpu"
        if folder == "ops/cuda" or name.endswith(("_cuda.cc", "_cuda.h")):
            return "ops/cuda"
        if folder == "ops/own":
            return folder
        if folder == "ops/reference" or name.endswith("_reference.cc"):
            return "ops/reference"
        return "ops"
    if path in DOORS:
        return "public"
    return folder


def floor_of(path):
    """The folder in ops/ that a file lies in, and the number of its floor."""
    folder = "/".join(path.split("/")[:-1][:2])
    if path == "ops/elementwise/elementwise_rows.h":
        return folder, 0
    for floor, folders in enumerate(FLOORS_BELOW):
        if folder in folders:
            return folder, floor
    for floor, folders in enumerate(FLOORS_ABOVE, OPS_FLOOR + 1):
        if folder in folders:
            return folder, floor
    return folder, OPS_FLOOR


def climbs(path, header):
    """What is wrong where a file of ops/ includes one of a floor above its own, or None."""
    (here, floor), (there, above) = floor_of(path), floor_of(header)
    if above <= floor:
        return None
    names = {"ops": "the list of all ops"}
    lower, upper = names.get(here, here), names.get(there, there)
    return f"{path} includes {header}: {lower} lies below {'ops' if above == OPS_FLOOR else upper}"


def circles_of_ops(sources):
    """Circles of folders of ops that include each other, by the files that do, in a dict from path to
    text."""
    ways = {}  # [folder][folder that it includes]: the first include
    for path, text in sorted(sources.items()):
        for header in includes(text) if path.startswith("ops/") else []:
            (here, floor), (there, other) = floor_of(path), floor_of(header)
            if here != there and floor == other == OPS_FLOOR:
                ways.setdefault(here, {}).setdefault(there, f"{path} includes {header}")
    found, told = [], set()
    for start in sorted(ways):
        circle = shortest_circle(ways, start)
        if circle and not told & set(circle):
            told.update(circle)
            found.append("ops in a circle: " + ", ".join(ways[a][b] for a, b in zip(circle, [*circle[1:], start])))
    return found


def shortest_circle(ways, start):
    """The folders of a way from `start` back to it, or nothing."""
    trails, seen = collections.deque([[start]]), set()
    while trails:
        trail = trails.popleft()
        for there in sorted(ways.get(trail[-1], [])):
            if there == start:
                return trail
            if there not in seen:
                seen.add(there)
                trails.append([*trail, there])
    return []


def wrong_include(path, header, public):
    """What is wrong where the file at `path` includes `header`, or None. `public`: the headers that
    users may include."""
    top = path.split("/")[0]
    if top in ABOVE:
        besides = BESIDES.get(room_of(path)) or BESIDES.get(top, set())
        if header.split("/")[0] in ABOVE[top] or header in public | besides:
            return None
        return f"{path} includes {header}, which is not public: {top}/ includes {PUBLIC}"
    here, there = room_of(path), room_of(header)
    if top == "ops" and header.startswith("ops/") and (error := climbs(path, header)):
        return error
    if here == there or here == "public":
        return None
    if here not in ORDER:
        return f"{path} lies in {here}, which is no room of tests/source/rooms.py"
    if there in _BELOW_IR and "graph/ir" in [here, *ORDER[here]]:
        return None
    if there not in ORDER[here]:
        allowed = ", ".join(sorted(ORDER[here])) or "nothing"
        return f"{path} includes {header}: {here} may include {allowed}, not {there}"
    return None


def public_headers(sources):
    """Those that users include, and what these include."""
    doors = {header for door in (PUBLIC, RANKS) if door in sources for header in [door, *includes(sources[door])]}
    return doors | {facade for facade, door in FACADES.items() if door in (PUBLIC, RANKS)}


def wrong(sources):
    """What breaks the order in a dict from path to text."""
    public = public_headers(sources)
    found = []
    for path, text in sorted(sources.items()):
        for header in includes(text):
            if error := wrong_include(path, header, public):
                found.append(error)
    return found + circles_of_ops(sources)


def ways_to_torch(sources):
    """From each file that includes a header of libtorch, itself or by way of others, the way there."""
    ways = {}

    def way(path):
        if path not in ways:
            ways[path] = []  # until it is known: a circle of includes leads nowhere
            text = sources[path]
            if own := _TORCH.findall(text):
                ways[path] = own[:1]
            else:
                for header in includes(text):
                    if header in sources and way(header):
                        ways[path] = [header, *way(header)]
                        break
        return ways[path]

    return {path: way(path) for path in sorted(sources) if way(path)}


def wrong_torch(sources):
    """Which files include libtorch that may not, in a dict from path to text. Users may."""
    found = []
    for path, way in ways_to_torch(sources).items():
        room = room_of(path)
        if path in TORCH_AUTHORS or room in TORCH_HEADERS or room not in {**ORDER, "public": []}:
            continue
        if not path.endswith(".h") and room in TORCH_SOURCES:
            continue
        by_way = "".join(f", by way of {header}" for header in way[:-1])
        kind = "headers" if path.endswith(".h") else "sources"
        rooms = TORCH_HEADERS if path.endswith(".h") else TORCH_HEADERS | TORCH_SOURCES
        found.append(f"{path} includes {way[-1]}{by_way}: {kind} of {', '.join(sorted(rooms))} may, not of {room}")
    return found


def whole_torch(sources):
    """Which tests include all of libtorch, in a dict from path to text."""
    return [
        f"{path} includes all of libtorch, <{header}>: include tests/aten.h, and <ATen/ops/NAME.h> for each "
        "function that it lacks"
        for path, text in sorted(sources.items())
        for header in _WHOLE.findall(text)
    ]


def too_full(paths):
    """Folders that hold more files than one can survey."""
    files = collections.Counter(path.rpartition("/")[0] for path in paths)
    return [f"{room} holds {n} files, at most {MOST_FILES}" for room, n in sorted(files.items()) if n > MOST_FILES]


def circles():
    """Rooms that may include themselves by way of others."""
    def reach(room, seen):
        for other in ORDER[room]:
            if other not in seen:
                seen.add(other)
                reach(other, seen)
        return seen

    return [room for room in ORDER if room in reach(room, set())]
