"""All sources are as clang-format writes them; one that is not is told of, in these words."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

FORMAT = os.environ.get("METRONOME_CLANG_FORMAT", "")
FOLDERS = ("benchmarks", "distributed", "example", "executor", "graph", "include", "models", "ops", "tests")
TOGETHER = 50


def unformatted(paths):
    """Of each file that is not formatted the first line that differs."""
    found = {}
    for begin in range(0, len(paths), TOGETHER):
        command = [FORMAT, "--dry-run", "--style=file", *paths[begin : begin + TOGETHER]]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        for line in said.splitlines():
            path, _, rest = line.partition(":")
            if "[-Wclang-format-violations]" in line:
                found.setdefault(path, rest.split(":")[0])
    return [f"{path}:{line} is not formatted: run {FORMAT} -i {path}" for path, line in sorted(found.items())]


class Format(unittest.TestCase):
    def test_a_line_that_is_not_formatted(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(".clang-format", folder)
            source = pathlib.Path(folder, "source.cc")
            source.write_text("int a = 1;\nint  b = 2;\n")
            self.assertEqual(
                unformatted([str(source)]), [f"{source}:2 is not formatted: run {FORMAT} -i {source}"]
            )

    def test_this_tree_is_formatted(self):
        paths = [
            str(path)
            for folder in FOLDERS
            for path in sorted(pathlib.Path(folder).rglob("*"))
            if path.suffix in (".h", ".cc", ".cu")
        ]
        self.assertGreater(len(paths), 500)
        self.assertEqual(unformatted(paths), [])


if __name__ == "__main__":
    if not os.access(FORMAT, os.X_OK):
        print("skipped: the format of all sources (there is no clang-format: ./metronome setup installs it)")
        sys.exit(0)
    unittest.main()
