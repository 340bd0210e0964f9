"""A header that is parsed once for the many sources that start with it."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("//third_party:paths.bzl", "include_path")

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    info = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    context = info.compilation_context

    # A name that only the folder of outputs has: the compiler looks for NAME.h.gch where NAME.h lies.
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    ctx.actions.write(header, "#include \"{}\"\n".format(include_path(ctx.file.header)))
    parsed = ctx.actions.declare_file(header.basename + ".gch")
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = header.path,
        output_file = parsed.path,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts,
        quote_include_directories = context.quote_includes,
        system_include_directories = context.system_includes,
        preprocessor_defines = context.defines,
        use_pic = True,
    )
    flags = cc_common.get_memory_inefficient_command_line(
        feature_configuration = features,
        action_name = "c++-compile",
        variables = variables,
    )
    ctx.actions.run(
        executable = toolchain.compiler_executable,
        arguments = ["-x", "c++-header"] + flags,
        inputs = depset([header, ctx.file.header], transitive = [context.headers, toolchain.all_files]),
        outputs = [parsed],
        mnemonic = "CppPrecompile",
        progress_message = "Compiling {} once for all".format(ctx.file.header.short_path),
    )
    files = depset([header, ctx.file.header, parsed])
    here = CcInfo(compilation_context = cc_common.create_compilation_context(headers = files))
    return [
        DefaultInfo(files = files),
        cc_common.merge_cc_infos(direct_cc_infos = [here], cc_infos = [info]),
    ]

precompiled_header = rule(
    doc = """`header` as <name>.h, parsed: for sources compiled with `-include PACKAGE/<name>.h`.

Their flags are those of this rule, definitions aside; GCC does not find out that -O differs.""",
    implementation = _precompiled_header_impl,
    attrs = {
        "copts": attr.string_list(doc = "further flags, the same as of the sources"),
        "deps": attr.label_list(doc = "what the header includes", providers = [CcInfo]),
        "header": attr.label(doc = "the header", allow_single_file = [".h"], mandatory = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
