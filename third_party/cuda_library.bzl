"""Libraries of CUDA kernels, compiled by nvcc; stubs where there is no toolkit."""

load("@cuda//:defs.bzl", "CUDA_AVAILABLE", "CUDA_NVCC")
load("@rules_cc//cc:defs.bzl", "cc_library")

# Machine code for A100 and H100, and PTX for what comes after. Multiply-adds are fused only where the
# source says so, on the device and on the host, so that fused kernels give the bits of unfused ones.
_FLAGS = [
    "-std=c++20",
    "-O3",
    "--fmad=false",
    "-gencode",
    "arch=compute_80,code=sm_80",
    "-gencode",
    "arch=compute_90,code=[sm_90,compute_90]",
    "-Xptxas",
    "-v",
    "-Xcompiler",
    "-fPIC,-ffp-contract=off",
]

# What the compiler says goes into the report, and all but the assembler's lines about resources onto
# the error stream too. It names its temporary files after its process, and sandboxes number processes
# alike, so each call has a folder of its own for them.
_COMPILE = """
report=$1
shift
status=0
export TMPDIR=$(mktemp -d)
trap 'rm -rf "$TMPDIR"' EXIT
"$@" 2>"$report" || status=$?
grep -vE '^(ptxas info|ptxas +[.]|    [0-9]+ bytes stack frame)' "$report" >&2 || true
exit $status
"""

def _cuda_objects_impl(ctx):
    headers = depset(transitive = [d[CcInfo].compilation_context.headers for d in ctx.attr.deps])

    # Of the repository that the sources lie in, whichever workspace builds them.
    root = ctx.label.workspace_root or "."
    objects = []
    reports = []
    for source in ctx.files.srcs:
        stem = "{}/{}".format(ctx.label.name, source.basename[:-len(".cu")])
        out = ctx.actions.declare_file(stem + ".o")
        report = ctx.actions.declare_file(stem + ".resources.txt")
        ctx.actions.run_shell(
            command = _COMPILE,
            arguments = [report.path, CUDA_NVCC] + _FLAGS + ["-I" + root, "-c", source.path, "-o", out.path],
            inputs = depset([source, ctx.file._version] + ctx.files.hdrs, transitive = [headers]),
            outputs = [out, report],
            mnemonic = "Nvcc",
            progress_message = "Compiling {} for devices".format(source.short_path),
            use_default_shell_env = True,
        )
        objects.append(out)
        reports.append(report)
    return [DefaultInfo(files = depset(objects)), OutputGroupInfo(resources = depset(reports))]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "hdrs": attr.label_list(allow_files = [".h"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "_version": attr.label(default = "@cuda//:version", allow_single_file = True),
    },
)

def _once_impl(ctx):
    return [
        DefaultInfo(files = depset(transitive = [o[DefaultInfo].files for o in ctx.attr.objects])),
        OutputGroupInfo(
            resources = depset(transitive = [o[OutputGroupInfo].resources for o in ctx.attr.objects]),
        ),
    ]

# The objects, built in one place for all configurations: a build with sanitizers, which concern only
# g++, takes them from the plain one.
_once = rule(
    implementation = _once_impl,
    attrs = {"objects": attr.label_list(cfg = "exec")},
)

def cuda_library(name, srcs, stub = [], cc_srcs = [], hdrs = [], deps = [], **kwargs):
    """A library of kernels for devices.

    Also NAME_resources: for each of `srcs` a file STEM.resources.txt, in which the assembler says
    what registers, spills and shared memory its kernels take (`ptxas -v`); none without a toolkit.

    Args:
      name: the library that others depend on.
      srcs: .cu files, compiled for sm_80, sm_90 and PTX; each is one action.
      stub: C++ sources in place of all these where there is no toolkit.
      cc_srcs: C++ sources that go with the kernels.
      hdrs: headers of both.
      deps: libraries whose headers the sources include.
      **kwargs: of cc_library (visibility, tags, ...).
    """
    if not CUDA_AVAILABLE:
        native.filegroup(name = name + "_resources")
        cc_library(name = name, srcs = stub, hdrs = hdrs, deps = deps, **kwargs)
        return
    objects = []
    if srcs:
        objects = [name + "_objects"]
        _cuda_objects(
            name = name + "_compiled",
            srcs = srcs,
            hdrs = hdrs,
            # "//..." would build it in its own configuration, besides that of `_once`.
            tags = ["manual"],
            visibility = ["//visibility:private"],
            deps = deps,
        )
        _once(
            name = objects[0],
            objects = [name + "_compiled"],
            visibility = ["//visibility:private"],
        )
    native.filegroup(
        name = name + "_resources",
        srcs = objects,
        output_group = "resources",
    )
    cc_library(
        name = name,
        srcs = cc_srcs + objects,
        hdrs = hdrs,
        deps = deps + ["//third_party:cuda_runtime"],
        **kwargs
    )
