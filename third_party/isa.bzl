"""CPU kernels, compiled once for each instruction set."""

load("@rules_cc//cc:defs.bzl", "cc_library")

_COMMON = ["-O3", "-ffp-contract=off", "-fno-math-errno", "-fopenmp"]

# Sources put their own code into the namespace METRONOME_ISA.
_AVX2 = [
    "-mavx2",
    "-mfma",
    "-mf16c",
    "-DMETRONOME_ISA=avx2",
]

_AVX512 = [
    "-mavx512f",
    "-mavx512bw",
    "-mavx512vl",
    "-mavx512dq",
    "-mavx2",
    "-mfma",
    "-mf16c",
    "-DMETRONOME_ISA=avx512",
]

# What every x86-64 processor has, and any other processor.
PORTABLE = ["-DMETRONOME_ISA=portable"]

def _if_built(isa, then, otherwise = []):
    """Selects `then` where kernels for `isa` are built: all are, or it alone (//third_party:only_...)."""
    branches = {"//conditions:default": then}
    for other in ["portable", "avx2", "avx512"]:
        branches["//third_party:only_" + other] = then if other == isa else otherwise
    return select(branches)

def isa_library(name, srcs, hdrs = [], textual_hdrs = [], deps = [], copts = [], **kwargs):
    """Compiles `srcs` for each set, as `<name>_portable`, `_avx2`, `_avx512`; `name` links those that are built.

    Args:
      name: the library that others depend on.
      srcs: sources; whatever they export lies in the namespace METRONOME_ISA.
      hdrs: headers, the same text under all instruction sets.
      textual_hdrs: what sources include besides, and no one else.
      deps: libraries of all builds.
      copts: further compiler flags of all builds.
      **kwargs: of cc_library, for all of them (visibility, tags, ...).
    """
    for isa, flags in [("portable", PORTABLE), ("avx2", _AVX2), ("avx512", _AVX512)]:
        cc_library(
            name = name + "_" + isa,
            srcs = srcs,
            hdrs = hdrs,
            textual_hdrs = textual_hdrs,
            copts = _COMMON + flags + copts,
            deps = deps,
            **kwargs
        )

    # `--define=metronome_isa=avx2` (or another) leaves the others out, for a program that runs where it
    # is built: kernels take as long to compile as all else that training links.
    #
    # The portable set before AVX2 and AVX2 before AVX-512, and it must stay so. An inline function that
    # several builds share (one of std::vector, say) is emitted by each, and the linker keeps the first
    # copy it meets: kept from the AVX-512 build, it would stop an AVX2 machine with an illegal
    # instruction. The order alone cannot promise it (a copy that an earlier build inlined away and a
    # later library needs); isa_test checks it.
    cc_library(
        name = name,
        hdrs = hdrs,
        deps = _if_built("portable", [":" + name + "_portable"]) +
               _if_built("avx2", [":" + name + "_avx2"]) +
               _if_built("avx512", [":" + name + "_avx512"]) + deps,
        **kwargs
    )

# For the source that chooses: which sets a build has.
ISA_DEFINES = (
    _if_built("portable", ["METRONOME_BUILDS_PORTABLE=true"], ["METRONOME_BUILDS_PORTABLE=false"]) +
    _if_built("avx2", ["METRONOME_BUILDS_AVX2=true"], ["METRONOME_BUILDS_AVX2=false"]) +
    _if_built("avx512", ["METRONOME_BUILDS_AVX512=true"], ["METRONOME_BUILDS_AVX512=false"])
)

def isa_test(name, program, **kwargs):
    """Checks that a linked program holds instructions of AVX-512 and AVX only in code built for them.

    Args:
      name: the test.
      program: a cc_binary or cc_test.
      **kwargs: of sh_test (visibility, tags, ...).
    """
    native.sh_test(
        name = name,
        size = "small",
        srcs = ["//third_party:isa_test.sh"],
        args = ["$(rootpath {})".format(program)],
        data = [program],
        **kwargs
    )
