"""No type is defined twice under one name; a planted one is told of, in these words."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import defined_types  # noqa: E402

HEADER = "namespace metronome::cpu {\n\nstruct Forward final : Kernel {\n  int x;\n};\n\n}  // namespace metronome::cpu\n"
OWN = "namespace metronome::cpu {\nnamespace {\n\nstruct Forward {};\n\n}  // namespace\n}  // namespace metronome::cpu\n"
FOLDERS = ("benchmarks", "example", "executor", "graph", "models", "ops")


class DefinedTypes(unittest.TestCase):
    def test_one_that_is_defined_twice(self):
        self.assertEqual(
            defined_types.twice({"ops/a/a.h": HEADER, "ops/b/b.h": HEADER, "ops/c/c.cc": OWN}),
            ["metronome::cpu::Forward is defined in ops/a/a.h and in ops/b/b.h"],
        )

    def test_a_file_s_own_a_member_and_a_specialisation_are_none(self):
        member = "namespace metronome {\nstruct Graph::Declaration {\n};\nstruct Simd<float> {\n};\n}  // namespace metronome\n"
        self.assertEqual(defined_types.twice({"a.cc": OWN, "b.cc": OWN, "c.cc": member, "d.cc": member}), [])

    def test_this_tree_has_none(self):
        sources = {
            str(path): path.read_text(encoding="utf-8")
            for folder in FOLDERS
            for path in pathlib.Path(folder).rglob("*")
            if path.suffix in (".h", ".cc", ".cu")
        }
        self.assertGreater(len(sources), 300)
        self.assertEqual(defined_types.twice(sources), [])


if __name__ == "__main__":
    unittest.main()
