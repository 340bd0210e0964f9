"""Paths as `#include` names them, wherever the workspace is that builds."""

def include_path(file):
    """The file's path in its own repository: "ops/ops.h", not "../metronome/ops/ops.h".

    Args:
      file: a File.
    """
    path = file.short_path
    return "/".join(path.split("/")[2:]) if path.startswith("../") else path

def setup_of(ctx):
    """How messages of repository rules call `./metronome setup`, and what it is to be followed by.

    Args:
      ctx: of a repository rule.
    """
    root = ctx.path(Label("//third_party:BUILD.bazel")).realpath.dirname.dirname
    return "{root}/metronome setup, and let this workspace's .bazelrc say \"import {root}/.metronome/outside.bazelrc\"".format(root = root)
