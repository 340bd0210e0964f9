"""A room: one folder of sources as one library."""

load("//third_party:unity.bzl", "unity_library")

def sources(rooms = []):
    """`sources`: the folder's own sources and those of rooms in it, for tests that read them.

    Args:
      rooms: packages below this one.
    """
    native.filegroup(
        name = "sources",
        srcs = native.glob([
            "**/*.cc",
            "**/*.cu",
            "**/*.h",
        ]) + [room + ":sources" for room in rooms],
        visibility = ["//:__subpackages__"],
    )

def room(name, deps, exclude = [], **kwargs):
    """One library of all that lies in the folder, compiled as one source, and its `sources`.

    Args:
      name: the library's, as the folder is called.
      deps: rooms and packages that it may include; which may include it is for `visibility`.
      exclude: files that are targets of their own.
      **kwargs: of cc_library (visibility, defines, ...).
    """
    unity_library(
        name = name,
        srcs = native.glob(["*.cc"], exclude = exclude),
        hdrs = native.glob(["*.h"], exclude = exclude),
        deps = deps,
        **kwargs
    )
    sources()
