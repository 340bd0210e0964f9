"""Small stand-ins for repositories that Bazel asks for by name: third_party/NAME as `@NAME`."""

def _stand_in_impl(ctx):
    root = ctx.path(Label("//third_party:BUILD.bazel")).dirname.get_child(ctx.name)
    for child in root.readdir():
        ctx.symlink(child, child.basename)

stand_in_repository = repository_rule(
    implementation = _stand_in_impl,
    local = True,
)
