"""What the build writes for devices: sources that only say which kernels to compile, and lists of all."""

load("//third_party:paths.bzl", "include_path")

def _stem(header):
    return header.basename[:-len("_kernels.h")]

def _list_of(header):
    """softmax_kernels.h defines SoftmaxKernels."""
    return "".join([part.capitalize() for part in _stem(header).split("_")]) + "Kernels"

def _kernel_sources_impl(ctx):
    sources = []
    for header in ctx.files.hdrs:
        source = ctx.actions.declare_file("device/{}.cu".format(_stem(header)))
        ctx.actions.write(source, "\n".join([
            "#include \"{}\"".format(include_path(header)),
            "",
            "#include \"ops/cuda/device.h\"",
            "",
            "METRONOME_DEVICE_KERNELS({}, {})".format(_stem(header), _list_of(header)),
            "",
        ]))
        sources.append(source)
    return [DefaultInfo(files = depset(sources))]

kernel_sources = rule(
    doc = "For each STEM_kernels.h a STEM.cu that compiles its kernels for devices.",
    implementation = _kernel_sources_impl,
    attrs = {"hdrs": attr.label_list(allow_files = ["_kernels.h"])},
)

def _kernel_lists_impl(ctx):
    ctx.actions.write(ctx.outputs.out, "\n".join([
        "// The kernels of all ops, as types: what is compiled for devices, and by tests for the host.",
        "#pragma once",
        "",
    ] + ["#include \"{}\"".format(include_path(header)) for header in ctx.files.hdrs] + [
        "#include \"ops/kernel/kernel.h\"",
        "",
        "namespace metronome::cuda {",
        "",
        "using AllKernels = typename JoinedList<{}>::type;".format(
            ", ".join([_list_of(header) for header in ctx.files.hdrs]),
        ),
        "",
        "}  // namespace metronome::cuda",
        "",
    ]))

kernel_lists = rule(
    doc = "A header with AllKernels, the lists of all STEM_kernels.h in one.",
    implementation = _kernel_lists_impl,
    attrs = {
        "hdrs": attr.label_list(allow_files = ["_kernels.h"]),
        "out": attr.output(mandatory = True),
    },
)
