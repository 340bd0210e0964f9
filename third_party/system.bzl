"""Libraries of the system's packages: `@system//:fmt` and its neighbours."""

# name -> (folder or file under /usr/include, Debian package, defines, linkopts, deps). fmt and spdlog are linked:
# header-only they cost each file that includes them 2.6 s and 5 to 8 s of compiling.
_LIBRARIES = {
    "cli11": ("CLI", "libcli11-dev", [], [], []),
    "doctest": ("doctest", "doctest-dev", [], [], []),
    "fmt": ("fmt", "libfmt-dev", [], ["-lfmt"], []),
    # Programs that serve nothing do not load it.
    "httplib": ("httplib.h", "libcpp-httplib-dev", [], ["-Wl,--push-state,--as-needed,-lcpp-httplib,--pop-state"], []),
    # Programs that import nothing do not load it.
    "libzip": ("zip.h", "libzip-dev", [], ["-Wl,--push-state,--as-needed,-lzip,--pop-state"], []),
    "nlohmann_json": ("nlohmann", "nlohmann-json3-dev", [], [], []),
    "spdlog": ("spdlog", "libspdlog-dev", ["SPDLOG_COMPILED_LIB", "SPDLOG_FMT_EXTERNAL", "SPDLOG_SHARED_LIB"], ["-lspdlog"], [":fmt"]),
}

_LIBRARY = """
cc_library(
    name = "{name}",
    hdrs = glob(["include/{folder}", "include/{folder}/**"], allow_empty = True),
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
