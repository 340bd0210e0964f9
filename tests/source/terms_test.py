"""Words that mean two types: planted ones are found, and this tree has none."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import terms  # noqa: E402

PRODUCT = ("benchmarks", "distributed", "executor", "graph", "models", "ops")


class Terms(unittest.TestCase):
    def test_a_name_of_a_header_means_one_type(self):
        texts = {
            "graph/ir/type.h": "namespace a { struct Layout { int n; }; }",
            "ops/reduce/reduce_cpu.cc": "namespace a { namespace { struct Layout { int n; }; struct Pair {}; } }",
            "ops/sort/sort_cpu.cc": "namespace a { namespace { struct Pair {}; } }",
        }
        self.assertEqual(
            terms.second_meanings(texts, []),
            ["Layout is two types, one of them a header's: graph/ir/type.h:1, ops/reduce/reduce_cpu.cc:1"],
        )

    def test_a_term_is_not_even_two_types_of_two_files(self):
        texts = {
            "executor/cpu/a.cc": "namespace { class Replay {}; }",
            "executor/cuda/b.cc": "namespace x::y { namespace {\nclass Replay {}; } }",
        }
        self.assertEqual(terms.second_meanings(texts, ["plan"]), [])
        self.assertEqual(
            terms.second_meanings(texts, ["plan", "replay"]),
            ['Replay is two types, and "replay" a term of DESIGN.md: executor/cpu/a.cc:1, executor/cuda/b.cc:2'],
        )

    def test_device_code_nested_types_and_specialisations_count_for_nothing(self):
        texts = {
            "ops/pad/pad.h": "struct Pad {}; struct A { struct Row {}; };",
            "ops/pad/pad_kernels.h": "struct Pad {}; struct B { struct Row {}; };",
            "ops/kernel/reduce.h": "struct Pad {};",
            "graph/a.h": "struct Row {}; template <> struct Pad<int> {};",
        }
        self.assertEqual(terms.second_meanings(texts, ["row"]), [])

    def test_the_table_is_read(self):
        design = "## 2. Words\n| word | meaning |\n|---|---|\n| held block | bytes |\n\n## 3. Next\n| x | y |\n"
        self.assertEqual(terms.terms(design), ["held block"])

    def test_files_that_documents_name_exist(self):
        documents = ["DESIGN.md", "README.md", *map(str, sorted(pathlib.Path("docs").rglob("*.md")))]
        found = {}
        for document in documents:
            text = pathlib.Path(document).read_text(encoding="utf-8")
            found[document] = terms.named_files(text)
            # Programs outside of the tree see include/ as their own root.
            places = ("", "include")
            missing = [name for name in found[document] if not any(pathlib.Path(p, name).exists() for p in places)]
            self.assertEqual(missing, [], f"{document} names files that are not there")
        self.assertGreater(len(found["DESIGN.md"]), 10)
        self.assertGreater(len(found["docs/design/ops.md"]), 20)
        self.assertEqual(terms.named_files("`a/b.h`, ops/<op>/x.cc, ops/*_k.h, c/d_{e}.cc b.h, (f/g.cc)."), ["a/b.h", "f/g.cc"])

    def test_this_tree_says_one_thing_with_each_word(self):
        root = pathlib.Path(".")
        words = terms.terms((root / "DESIGN.md").read_text(encoding="utf-8"))
        self.assertGreater(len(words), 30)
        self.assertEqual(len(words), len(set(words)), "a term has two rows")
        files = [file for folder in PRODUCT for file in root.glob(f"{folder}/**/*") if file.suffix in (".h", ".cc", ".cu")]
        self.assertGreater(len(files), 500)
        texts = {str(file): file.read_text(encoding="utf-8") for file in files}
        self.assertEqual(terms.second_meanings(texts, words), [])


if __name__ == "__main__":
    unittest.main()
