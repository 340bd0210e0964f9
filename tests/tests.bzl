"""One test program for each file, or for a room of files."""

load("//third_party:unity.bzl", "unity")

# Programs that time what they run, or fill the machine's memory: `./metronome test` runs two others at
# a time, and these alone.
_ALONE = [
    "benchmarks/floor_test.cc",
    "cuda/stopwatch_test.cc",
    "executor/compile/keep_whole_test.cc",
    "executor/record/profile_test.cc",
    "executor/cpu/free_memory_test.cc",
    "executor/cpu/spin_limiter_test.cc",
    "executor/compile/tuning_test.cc",
    "gpu/control_test.cc",
    "models/allocations_test.cc",
    "models/compare_test.cc",
    "models/profile_test.cc",
]

# Files of rooms that are programs of their own: they take the place of a library's function, fork, read
# the environment when they start, time what they run, or need not be linked with so much.
OF_THEIR_OWN = [
    "executor/run/broken_steps_test.cc",
    "executor/checkpoint/checkpoint_kill_test.cc",
    "executor/compile/cpu_alone_test.cc",
    "executor/compile/environment_test.cc",
    "executor/compile/keep_whole_test.cc",
    "executor/cuda/launch_watch_test.cc",
    "executor/cuda/nvrtc_test.cc",
    "executor/cuda/open_cuda_test.cc",
    "executor/record/profile_test.cc",
    "executor/cpu/free_memory_test.cc",
    "executor/cpu/spin_limiter_test.cc",
    "executor/compile/tuning_test.cc",
    "models/allocations_test.cc",
    "models/command_line_test.cc",
    "models/compare_test.cc",
    "models/device_nodes_test.cc",
    "models/profile_test.cc",
    "models/segmentation_test.cc",
    "ops/language/composition_test.cc",
    "ops/language/each_test.cc",
    "ops/kernels/fold_test.cc",
    "ops/language/functions_test.cc",
    "ops/language/half_test.cc",
    "ops/language/indexing_test.cc",
    "ops/layers/init_test.cc",
    "ops/optimizers/optimizers_test.cc",
    "ops/layers/recurrent_mistakes_test.cc",
    "ops/language/routing_test.cc",
]

# How the folders' tests are optimised, -O1 where it is not said. They spend their time in the libraries
# that they call: a third of a compile is saved where nothing is optimised, which the others would lose
# as they run.
_OPTIMIZED = {
    "cuda_runtime": "-O0",
    "executor": "-O0",
    "nccl": "-O0",
}

# Both ways, each with headers of its own.
LEVELS = {
    "-O0": ["-O0", "-U_FORTIFY_SOURCE"],
    "-O1": ["-O1"],
}

# Headers that every test may include.
_HEADERS = [
    "error_of.h",
    "skipped.h",
]

def _compiled(folder, deps):
    """The `deps` and `copts` of a folder's tests: with the headers parsed before, if they use libtorch."""
    level = _OPTIMIZED.get(folder, "-O1")
    if ":doctest" not in deps:
        return {"copts": LEVELS[level], "deps": deps}
    name = "precompiled" + level
    return {
        "copts": LEVELS[level] + select({
            "//third_party:parses_each": [],
            "//conditions:default": ["-include", "tests/{}.h".format(name), "-Winvalid-pch"],
        }),
        "deps": deps + select({
            "//third_party:parses_each": [],
            "//conditions:default": [":" + name],
        }),
    }

def name_of(src):
    """The name of a file that is a program: "executor_tuning_test" of executor/compile/tuning_test.cc."""
    return src.split("/")[0] + "_" + src.split("/")[-1][:-len(".cc")]

def doctests(srcs, deps, hdrs = [], data = [], local_defines = [], shard_count = None):
    """Makes `models_arena_test` of models/arena_test.cc, and so on."""
    for src in srcs:
        compiled = _compiled(src.split("/")[0], deps + [
            ":doctest_main",
            "//third_party:doctest",
        ])
        native.cc_test(
            name = name_of(src),
            srcs = [src] + _HEADERS + hdrs,
            data = data,
            local_defines = local_defines,
            shard_count = shard_count,
            tags = ["exclusive"] if src in _ALONE else [],
            **compiled
        )

def doctest_room(name, srcs, parts, deps, hdrs = [], first = None, **kwargs):
    """One program of many files, which are compiled together in a few sources.

    Each file's own helpers stand in a namespace that is called like it: metronome::testing::fuse_test.
    Cases of one file: `--test_arg=--source-file=*graph/passes/fuse_test.cc`.

    Args:
      name: the program, "graph_test" for files of graph/: `./metronome test` finds it by that.
      srcs: its files.
      parts: in how many compiles, of about 1,500 lines each.
      deps: of the files.
      hdrs: of the files.
      first: a header that comes before all files.
      **kwargs: of cc_test (data, local_defines, ...).
    """
    unity(
        name = name + "_unity",
        testonly = True,
        srcs = srcs,
        by_file = True,
        first = first,
        parts = parts,
    )

    # A cc_test has no textual headers.
    native.cc_library(
        name = name + "_files",
        testonly = True,
        textual_hdrs = srcs,
    )
    kwargs.update(_compiled(srcs[0].split("/")[0], deps + [
        name + "_files",
        ":doctest_main",
        "//third_party:doctest",
    ]))
    native.cc_test(
        name = name,
        srcs = [name + "_unity"] + _HEADERS + hdrs,
        # One to two minutes on two cores.
        timeout = "long",
        **kwargs
    )

# Folders whose files are one program, but for those of their own.
_ROOMS = [
    "distributed",
    "executor",
    "graph",
    "models",
    "ops",
]

def program_of(src):
    """The program that a test file is part of: ":ops_test" of ops/kernels/bits_test.cc."""
    room = src.split("/")[0]
    return ":" + (room + "_test" if room in _ROOMS and src not in OF_THEIR_OWN else name_of(src))

def runs(src):
    """The arguments that run one file's cases, for env.sh."""
    return ["$(rootpath {})".format(program_of(src)), "--source-file=*tests/" + src]
