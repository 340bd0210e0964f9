"""Source files as text inside a program."""

def embed(name, srcs, out, header, namespace, struct, function):
    """Writes a C++ source that defines a function that gives names and texts of files.

    Args:
      name: the rule.
      srcs: the files, named in the program as `#include` names them.
      out: the C++ source.
      header: the header that declares the function.
      namespace: its namespace.
      struct: the struct of a file, {name, text}.
      function: the function: `std::span<const struct> function();`.
    """
    native.genrule(
        name = name,
        srcs = srcs,
        outs = [out],
        cmd = "$(location //third_party:embed.sh) {} {} {} {} $(SRCS) > $@".format(
            header,
            namespace,
            struct,
            function,
        ),
        tools = ["//third_party:embed.sh"],
    )
