"""Source files as text inside a program."""

def embed(name, srcs, out):
    """Writes a C++ source that defines `embedded_headers()` of ops/cuda/embedded.h.

    Args:
      name: the rule.
      srcs: the headers, named in the program as `#include` names them.
      out: the C++ source.
    """
    native.genrule(
        name = name,
        srcs = srcs,
        outs = [out],
        cmd = "$(location //third_party:embed.sh) $(SRCS) > $@",
        tools = ["//third_party:embed.sh"],
    )
