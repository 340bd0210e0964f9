"""One test program for each file."""

# Tests that compile for long and time nothing: `./metronome test` runs two of them at a time.
TOGETHER = ["together"]

def doctests(srcs, deps, hdrs = [], data = [], local_defines = [], shard_count = None, tags = []):
    """Makes `graph_print_test` of graph/print_test.cc, and so on."""
    for src in srcs:
        native.cc_test(
            name = src[:-len(".cc")].replace("/", "_"),
            srcs = [src, "skipped.h"] + hdrs,
            data = data,
            local_defines = local_defines,
            shard_count = shard_count,
            tags = tags,
            deps = deps + [
                ":doctest_main",
                "//third_party:doctest",
            ],
        )
