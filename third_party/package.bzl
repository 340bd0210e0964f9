"""Libraries of this tree as static archives and headers, for programs that Bazel does not build."""

def _objects_of(targets, whole):
    """Each object once, in the order in which a program links them: those that are linked whole, or the others."""
    objects = {}
    for target in targets:
        for linked in target[CcInfo].linking_context.linker_inputs.to_list():
            for library in linked.libraries:
                if library.alwayslink == whole:
                    for object in library.pic_objects or library.objects or []:
                        objects[object] = True
    return objects.keys()

def _archive_impl(ctx):
    objects = _objects_of(ctx.attr.deps, ctx.attr.whole)
    out = ctx.actions.declare_file("lib{}.a".format(ctx.label.name))
    listed = ctx.actions.args()
    listed.add_all(objects)
    listed.set_param_file_format("multiline")
    listed.use_param_file("@%s", use_always = True)
    ctx.actions.run_shell(
        outputs = [out],
        inputs = objects,
        command = "rm -f \"$1\" && ar qcsD \"$1\" \"$2\"",
        arguments = [out.path, listed],
        mnemonic = "Archive",
    )
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles([out]))]

archive = rule(
    doc = "lib<name>.a: the objects of `deps` and of all that they depend on.",
    implementation = _archive_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "whole": attr.bool(doc = "those alone that programs link whole, else all others"),
    },
)

def _headers_impl(ctx):
    headers = []
    for dep in ctx.attr.deps:
        for header in dep[CcInfo].compilation_context.headers.to_list():
            inside = not header.short_path.startswith("../")
            if inside and header.extension not in ["cc", "cu"] and header not in headers:
                headers.append(header)
    out = ctx.actions.declare_file(ctx.label.name + ".txt")
    ctx.actions.write(out, "".join(sorted([header.short_path + "\n" for header in headers])))
    files = [out] + headers
    return [DefaultInfo(files = depset(files), runfiles = ctx.runfiles(files))]

header_list = rule(
    doc = "<name>.txt: the headers of this tree that a source which uses `deps` may include, a path a line.",
    implementation = _headers_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)
