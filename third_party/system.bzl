"""Libraries of the system's packages: `@system//:fmt` and its neighbours."""

# name -> (folder under /usr/include, Debian package, defines, linkopts, deps). fmt is linked: header-only it
# costs each file 2.6 s of compiling.
_LIBRARIES = {
    "cli11": ("CLI", "libcli11-dev", [], [], []),
    "doctest": ("doctest", "doctest-dev", [], [], []),
    "fmt": ("fmt", "libfmt-dev", [], ["-lfmt"], []),
    "nlohmann_json": ("nlohmann", "nlohmann-json3-dev", [], [], []),
    "spdlog": ("spdlog", "libspdlog-dev", ["SPDLOG_FMT_EXTERNAL"], [], [":fmt"]),
}

_LIBRARY = """
cc_library(
    name = "{name}",
    hdrs = glob(["include/{folder}/**"]),
    defines = {defines},
    includes = ["include"],
    linkopts = {linkopts},
    visibility = ["//visibility:public"],
    deps = {deps},
)
"""

def _system_impl(ctx):
    build = ""
    for name, (folder, package, defines, linkopts, deps) in _LIBRARIES.items():
        source = "/usr/include/" + folder
        if not ctx.path(source).exists:
            fail("{}: {} (package {}) is missing: run ./metronome setup.".format(name, source, package))
        ctx.symlink(source, "include/" + folder)
        build += _LIBRARY.format(name = name, folder = folder, defines = repr(defines), linkopts = repr(linkopts), deps = repr(deps))
    ctx.file("BUILD.bazel", build)

system_repository = repository_rule(
    implementation = _system_impl,
    local = True,
)
