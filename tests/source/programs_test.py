"""Each program is built by a test: one that nobody names would break unseen."""

import pathlib
import re
import unittest

PACKAGES = ["models", "benchmarks", "benchmarks/gpu_check"]
PROGRAM = re.compile(r'cc_binary\(\s*name = "([^"]+)"')


def not_built(package, text, tests):
    """Programs of a package's BUILD file that neither it nor that of tests/ names anywhere else."""
    return [
        f"//{package}:{name}"
        for name in PROGRAM.findall(text)
        if f'":{name}"' not in text and f'"//{package}:{name}"' not in tests
    ]


class Programs(unittest.TestCase):
    def test_one_that_nobody_names_is_found(self):
        text = 'cc_binary(\n    name = "a",\n)\n\ncc_binary(\n    name = "b",\n)\nfilegroup(srcs = [":b"])\n'
        self.assertEqual(not_built("models", text, ""), ["//models:a"])
        self.assertEqual(not_built("models", text, 'data = ["//models:a"]'), [])

    def test_this_tree_builds_all(self):
        tests = pathlib.Path("tests/BUILD.bazel").read_text(encoding="utf-8")
        found = 0
        for package in PACKAGES:
            text = pathlib.Path(package, "BUILD.bazel").read_text(encoding="utf-8")
            found += len(PROGRAM.findall(text))
            self.assertEqual(not_built(package, text, tests), [])
        self.assertGreater(found, 15)


if __name__ == "__main__":
    unittest.main()
