"""Each rule of documents.py, on a planted mistake and on this tree's documents and comments."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import documents


class Documents(unittest.TestCase):
    def test_a_link_to_what_is_not_there_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "docs").mkdir()
            page, other = root / "docs" / "a.md", root / "b.md"
            other.write_text("# Two words, `code`\n```\n# no heading\n```\n", encoding="utf-8")
            page.write_text(
                "# Here\n[1](../b.md) [2](../b.md#two-words-code) [3](#here) [4](https://example.org/x)\n"
                "[5](../c.md) [6](../b.md#no-heading) [7](#there) [8](../../outside.md)\n```\n[9](d.md)\n```\n",
                encoding="utf-8",
            )
            self.assertEqual(
                documents.broken_links(page, root), ["../c.md", "../b.md#no-heading", "#there", "../../outside.md"]
            )

    def test_long_pages_and_indirect_sentences_are_found(self):
        self.assertEqual(documents.too_long("x" * 161 + "\n" + "y\n" * 120), ["line 1 has 161 characters", "121 lines"])
        text = "What it is, is this. A plan is made. Of it we speak.\n- Where it runs.\nWhatever.\n| What | x |\n```\nWhat\n```\n"
        self.assertEqual(
            documents.indirect_sentences(text), ["What it is, is this", "Of it we speak", "Where it runs"]
        )

    def test_sentences_end_with_paragraphs_points_and_cells(self):
        text = (
            "# A head\nOne goes\non (so `it` is). Two, e.g. this one; no more.\n\n- A point\n  of two lines.\n"
            "  ```\n  no. sentence\n  ```\n| cell | other cell |\n|---|---|\n"
        )
        self.assertEqual(
            [(" ".join(documents.words(sentence)), line) for sentence, line in documents.sentences(text)],
            [
                ("A head", 1),
                ("One goes on (so `it` is).", 2),
                ("Two, e.g. this one; no more.", 2),
                ("A point of two lines.", 5),
                ("cell", 10),
                ("other cell", 10),
            ],
        )

    def test_long_sentences_are_found(self):
        long = " ".join(["word"] * 31)
        text = f"# Head\n{long[5:]}. One\n{long}.\n- {long[5:]}\n| {long} | cell |\n```\n{long}\n```\n"
        self.assertEqual(
            documents.long_sentences(text),
            ["line 2: 32 words, One word word word word ...", "line 5: 31 words, word word word word word ..."],
        )
        self.assertEqual(documents.too_long("x" * 111 + "\ny\n", 1, 110), ["line 1 has 111 characters", "2 lines"])

    def test_indirect_comments_are_found(self):
        text = (
            "// What it holds.\n"
            "int a;  ///< of which it is one\n"
            "/// One of two. Of these\n"
            "/// the first.\n"
            'std::string where = "Where // What";\n'
            "int b;  ///< Which of them\n"
            "// Says\n"
            "// What is meant.\n"
        )
        self.assertEqual(
            documents.indirect_comments(text), ["What it holds", "Of these the first", "Which of them"]
        )

    def test_snippets(self):
        text = "```cpp\na(1);\n\n  b[2];\n```\nand\n```cpp\na(1);\nb[2];\n```\n```\n./metronome\n```\n"
        self.assertEqual(documents.untried_snippets(text, ["{\n    a(1);\n\n      b[2];\n}"]), ["a(1);"])
        self.assertEqual(documents.untried_snippets(text, ["a(1);\n\n  b[2];", "x\na(1);\nb[2];\n"]), [])
        self.assertEqual(documents.untried_snippets("```cpp\na(1);\n```", ["a(1); b"]), ["a(1);"])

    def test_snippets_of_this_tree_are_compiled_and_run(self):
        tests = (
            "tests/executor/run/guide_test.cc",
            "tests/distributed/guide_test.cc",
            "tests/import/programs_test.cc",
            "tests/export/export_test.cc",
            "tests/export/onnx_file_test.cc",
        )
        programs = ("models/first.cc", "example/soft_cap.h", "example/soft_cap.cc")
        sources = [pathlib.Path(path).read_text(encoding="utf-8") for path in tests + programs]
        found = 0
        for page in documents.documents(pathlib.Path(".")):
            text = page.read_text(encoding="utf-8")
            found += len(documents.SNIPPET.findall(text))
            self.assertEqual(documents.untried_snippets(text, sources), [], f"{page}: no test runs them")
        self.assertGreater(found, 10)

    def test_comments_of_this_tree(self):
        folders = ("benchmarks", "distributed", "example", "executor", "graph", "models", "ops", "tests")
        files = [path for folder in folders for path in sorted(pathlib.Path(folder).rglob("*"))]
        sources = [path for path in files if path.suffix in (".h", ".cc")]
        self.assertGreater(len(sources), 600)
        for path in sources:
            text = path.read_text(encoding="utf-8")
            self.assertEqual(documents.indirect_comments(text), [], f"{path}: begin with the subject")

    def test_this_tree(self):
        root = pathlib.Path(".")
        pages = documents.documents(root)
        self.assertGreater(len(pages), 4)
        for page in pages:
            self.assertEqual(documents.broken_links(page, root), [], f"{page} links to what is not there")
            text = page.read_text(encoding="utf-8")
            self.assertEqual(documents.indirect_sentences(text), [], f"{page}: begin with the subject")
        self.assertEqual(documents.too_long((root / "README.md").read_text(encoding="utf-8")), [])

    def test_the_design_is_short(self):
        root = pathlib.Path(".")
        text = (root / "DESIGN.md").read_text(encoding="utf-8")
        self.assertEqual(documents.too_long(text, documents.DESIGN_LINES, documents.DESIGN_WIDTH), [])
        pages = documents.design_pages(root)
        self.assertGreater(len(pages), 7)
        for page in pages:
            self.assertEqual(documents.long_sentences(page.read_text(encoding="utf-8")), [], f"{page}: split them")


if __name__ == "__main__":
    unittest.main()
