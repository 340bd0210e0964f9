"""oneDNN with GNU OpenMP, unpacked from its two wheels: `@onednn//:onednn`."""

load("//third_party:paths.bzl", "setup_of")

_BUILD = """
cc_library(
    name = "onednn",
    hdrs = glob(["include/**"]),
    includes = ["include"],
    linkopts = [
        "-L{root}/lib",
        "-ldnnl",
        "-Wl,-rpath,{root}/lib",
    ],
    visibility = ["//visibility:public"],
)
"""

def _onednn_impl(ctx):
    root = ctx.os.environ.get("METRONOME_ONEDNN")
    if not root:
        fail("onednn: it is not set up here: run {}.".format(setup_of(ctx)))
    for needed in ["lib/libdnnl.so.3", "include/oneapi/dnnl/dnnl.hpp"]:
        if not ctx.path(root + "/" + needed).exists:
            fail("onednn: {} lacks {}: run ./metronome setup.".format(root, needed))
    ctx.symlink(root + "/include", "include")
    ctx.file("BUILD.bazel", _BUILD.format(root = root))

onednn_repository = repository_rule(
    implementation = _onednn_impl,
    environ = ["METRONOME_ONEDNN"],
    local = True,
)
