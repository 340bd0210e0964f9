"""The outside world of Metronome, for its own WORKSPACE and for those of its users."""

load("//third_party:cuda.bzl", "cuda_repository")
load("//third_party:libtorch.bzl", "libtorch_repository")
load("//third_party:onednn.bzl", "onednn_repository")
load("//third_party:stand_in.bzl", "stand_in_repository")
load("//third_party:system.bzl", "system_repository")

_REPOSITORIES = {
    # The CUDA 13 toolkit, or none.
    "cuda": cuda_repository,
    "libtorch": libtorch_repository,
    "onednn": onednn_repository,
    # Bazel 4.2 asks for these two by name. The small stand-ins keep the build off the network.
    "remote_coverage_tools": stand_in_repository,
    "rules_cc": stand_in_repository,
    # Headers of Debian's packages.
    "system": system_repository,
}

# Rules that Bazel would download; Debian's Bazel, which has no version, has them beside it.
_DEBIAN = {
    "bazel_skylib": "/usr/share/bazel/tools/skylib",
    "rules_java": "/usr/share/bazel/rules/java",
    "rules_proto": "/usr/share/bazel/rules/proto",
}

def metronome_dependencies():
    """Declares what Metronome is built with: libtorch, oneDNN, CUDA, the system's libraries.

    Nothing is downloaded: `./metronome setup` puts everything in place beforehand. What the
    workspace declared before under one of these names stays as it is.
    """
    for name, repository in _REPOSITORIES.items():
        if not native.existing_rule(name):
            repository(name = name)
    for name, path in _DEBIAN.items():
        if not native.bazel_version and not native.existing_rule(name):
            native.local_repository(name = name, path = path)
