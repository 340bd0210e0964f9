"""The CUDA 13 toolkit of this machine, or none: `@cuda//:headers`, `@cuda//:runtime`, `defs.bzl`.

METRONOME_CUDA names its folder, else it is /usr/local/cuda; `./metronome` passes on the one that it
installed where the machine has none. Without a toolkit everything still builds, against stubs:
`defs.bzl` says why there is none.
"""

# What compiling and linking take of a toolkit. cuBLASLt and NVRTC are loaded at run time, so their
# headers are enough.
_NEEDED = [
    "bin/nvcc",
    "bin/cudafe++",
    "bin/fatbinary",
    "bin/ptxas",
    "include/crt/host_config.h",
    "include/cublasLt.h",
    "include/cuda_runtime_api.h",
    "include/nvrtc.h",
    "nvvm/bin/cicc",
]

_DEFS = '''"""What `@cuda` found. Written by third_party/cuda.bzl."""

CUDA_AVAILABLE = {available}

# "13.0.88", or empty.
CUDA_VERSION = {version}

# Why there is no CUDA: half a sentence, or empty.
CUDA_REASON = {reason}

# For sources that ask whether there is CUDA: METRONOME_NO_CUDA is the reason why not, a string.
CUDA_DEFINES = {defines}

CUDA_NVCC = {nvcc}
'''

_BUILD = """
package(default_visibility = ["//visibility:public"])

# Of nvcc, so that what it compiled is compiled anew after an upgrade.
exports_files(["version"])

cc_library(
    name = "headers",
    # A folder, not 2,000 files: a sandbox is then one link, and is made at once.
    hdrs = {headers},
    includes = ["include"],
)

# The shared CUDA runtime, which libtorch loads too.
cc_library(
    name = "runtime",
    linkopts = {linkopts},
    deps = [":headers"],
)
"""

def _plain(text):
    """The text without what means something in a shell's or a C++ string."""
    for mark in ["'", "\"", "\\"]:
        text = text.replace(mark, "")
    return text

def _write(ctx, version, reason, nvcc, headers, linkopts):
    ctx.file("version", version + "\n")
    ctx.file("defs.bzl", _DEFS.format(
        available = not reason,
        version = repr(version),
        reason = repr(reason),
        # In quotes for the shell's rules, by which Bazel takes such a list apart.
        defines = repr(["METRONOME_NO_CUDA='\"{}\"'".format(reason)] if reason else []),
        nvcc = repr(nvcc),
    ))
    ctx.file("BUILD.bazel", _BUILD.format(headers = repr(headers), linkopts = repr(linkopts)))

def _version_of(ctx, root):
    """The version of a whole CUDA 13 toolkit and an empty string, or one and what is wrong."""
    if not ctx.path(root).exists:
        return "", "there is no " + root
    missing = [needed for needed in _NEEDED if not ctx.path(root + "/" + needed).exists]
    if missing:
        return "", "{} lacks {}".format(root, missing[0])
    said = ctx.execute([root + "/bin/nvcc", "--version"])

    # "Cuda compilation tools, release 13.0, V13.0.88"
    version = said.stdout.partition(", V")[2].split("\n")[0].strip()
    if said.return_code != 0 or not version:
        return "", "{}/bin/nvcc does not run".format(root)
    if not version.startswith("13."):
        return "", "{} has CUDA {}, not 13".format(root, version)

    # A host compiler too new for nvcc, say, shows here, and costs no build.
    ctx.file("trial.cu", "__global__ void nothing() {}\n")
    tried = ctx.execute([root + "/bin/nvcc", "-std=c++20", "-arch=sm_90", "-c", "trial.cu", "-o", "trial.o"])
    if tried.return_code != 0:
        lines = [line for line in tried.stderr.split("\n") if "error" in line] + ["it says nothing"]
        return "", "{}/bin/nvcc compiles nothing here ({})".format(root, lines[0].strip())
    return version, ""

def _cuda_impl(ctx):
    root = ctx.os.environ.get("METRONOME_CUDA") or "/usr/local/cuda"
    version, reason = _version_of(ctx, root)
    libraries = [root + "/" + folder for folder in ["lib64", "lib"]]
    libraries = [folder for folder in libraries if ctx.path(folder + "/libcudart.so.13").exists]
    if not reason and not libraries:
        reason = root + " lacks lib64/libcudart.so.13"
    if reason:
        _write(ctx, "", _plain(reason), "", [], [])
        return
    ctx.symlink(root + "/include", "include")
    _write(ctx, version, "", root + "/bin/nvcc", ["include"], [
        "-L" + libraries[0],
        "-l:libcudart.so.13",
        "-Wl,-rpath," + libraries[0],
    ])

cuda_repository = repository_rule(
    implementation = _cuda_impl,
    environ = ["METRONOME_CUDA"],
    local = True,
)
