"""Several sources compiled as one, as most of a source's compile is its headers."""

load("@rules_cc//cc:defs.bzl", "cc_library")
load("//third_party:paths.bzl", "include_path")

def _unity_impl(ctx):
    parts = [[] for _ in range(ctx.attr.parts)]
    for source in ctx.files.srcs:
        # By name, so that a new file moves no other one.
        name = include_path(source) if ctx.attr.by_file else source.short_path.rpartition("/")[0]
        parts[hash(name) % len(parts)].append(source)
    outs = []
    for i, sources in enumerate(parts):
        out = ctx.actions.declare_file("{}_{}.cc".format(ctx.label.name, i))
        paths = ([ctx.attr.first] if ctx.attr.first else []) + [include_path(source) for source in sources]
        ctx.actions.write(out, "".join(["#include \"{}\"\n".format(path) for path in paths]))
        outs.append(out)
    return [DefaultInfo(files = depset(outs))]

unity = rule(
    doc = "Sources that include `srcs`, which their library also names as `textual_hdrs`.",
    implementation = _unity_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cc"]),
        "by_file": attr.bool(doc = "whether a folder's files may come into several sources"),
        "first": attr.string(doc = "a header that is included before them"),
        "parts": attr.int(default = 1, doc = "how many sources; a folder's files come into one"),
    },
)

def unity_library(name, srcs, parts = 1, by_file = False, **kwargs):
    """A cc_library of which a few sources include all others.

    Two files of one namespace may then not both define a name, not even in anonymous namespaces: the
    compiler says where it stands twice. What is the same moves to a header, what differs gets a name
    that says so.

    Args:
      name: the library.
      srcs: its sources.
      parts: in how many compiles; a folder's files come into one.
      by_file: whether they may come into several.
      **kwargs: of cc_library (hdrs, deps, visibility, ...).
    """
    unity(
        name = name + "_unity",
        srcs = srcs,
        by_file = by_file,
        parts = parts,
    )
    cc_library(
        name = name,
        srcs = [name + "_unity"],
        textual_hdrs = srcs,
        **kwargs
    )
