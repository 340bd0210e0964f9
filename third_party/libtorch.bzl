"""libtorch as it lies inside an installed PyTorch wheel: `@libtorch//:libtorch`.

METRONOME_PYTHON names the Python that has torch; `./metronome` passes it on, or the cached one's.
"""

load("//third_party:paths.bzl", "setup_of")

# Headers that are linked into the repository. The wheel carries fmt's as well, of another version
# than the one Metronome uses, so the folder as a whole must stay off the include path.
_HEADERS = ["ATen", "c10", "caffe2", "torch"]

# Prints the folder of torch and the folders of the CUDA libraries that libtorch_cpu itself loads.
# Looks without importing: torch's Python part needs CUDA libraries that a CPU build does not.
_FIND = """
import glob, importlib.util, os
spec = importlib.util.find_spec("torch")
if spec is None:
    raise SystemExit("it has no torch")
torch = os.path.dirname(spec.origin)
print(torch)
for name in ("libcudart.so.*", "libcupti.so.*"):
    found = glob.glob(os.path.join(os.path.dirname(torch), "nvidia", "*", "lib", name))
    if found:
        print(os.path.dirname(sorted(found)[-1]))
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "libtorch",
    # Folders, not 9,000 files: a sandbox is then three links, and is made at once.
    hdrs = {headers},
    # A header for each of its functions. Without it TensorOperators.h includes all of them, which costs
    # each file 2.5 s of compiling.
    defines = ["AT_PER_OPERATOR_HEADERS"],
    includes = [
        "include",
        "include/torch/csrc/api/include",
    ],
    linkopts = {linkopts},
)

# Where linkers find the CUDA runtime that libtorch loads; nothing where it loads none.
cc_library(
    name = "cudart",
    linkopts = {cudart},
)
"""

def _libtorch_impl(ctx):
    python = ctx.os.environ.get("METRONOME_PYTHON")
    if not python:
        fail("libtorch: no Python with torch is set up here: run {}.".format(setup_of(ctx)))
    found = ctx.execute([python, "-c", _FIND])
    if found.return_code != 0:
        fail("libtorch: {} is of no use ({}): unset METRONOME_PYTHON and run ./metronome setup.".format(
            python,
            (found.stderr.strip().split("\n") or [""])[-1],
        ))
    lines = found.stdout.strip().split("\n")
    torch = lines[0]
    for needed in ["lib/libtorch_cpu.so", "lib/libc10.so"] + ["include/" + h for h in _HEADERS]:
        if not ctx.path(torch + "/" + needed).exists:
            fail("libtorch: {} lacks {}: run ./metronome setup.".format(torch, needed))

    # Nothing here stands on one version of torch except the wheel's own libgomp, which libtorch_cpu
    # finds by $ORIGIN: with torch/lib first in the rpath every library of the program gets that one.
    folders = [torch + "/lib"]
    for folder in lines[1:]:
        if folder not in folders:
            folders.append(folder)
    cudart = [f for f in folders[1:] if ctx.path(f + "/libcudart.so.13").exists]
    linkopts = ["-L{}/lib".format(torch), "-ltorch_cpu", "-lc10"]
    linkopts += ["-Wl,-rpath," + f for f in folders] + ["-Wl,-rpath-link," + f for f in folders]
    ctx.symlink(torch + "/lib", "lib")
    for header in _HEADERS:
        ctx.symlink(torch + "/include/" + header, "include/" + header)
    ctx.file("BUILD.bazel", _BUILD.format(
        headers = repr(["include/" + h for h in _HEADERS]),
        linkopts = repr(linkopts),
        cudart = repr([flag + f for f in cudart for flag in ["-L", "-Wl,-rpath,"]]),
    ))

libtorch_repository = repository_rule(
    implementation = _libtorch_impl,
    environ = ["METRONOME_PYTHON"],
    local = True,
)
