"""Pasted functions: planted ones are found, in these words, and tests have none."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import pasted  # noqa: E402

SUM = """
{head} {{
  int sum = 0;{note}
  for (int i = 0; i < n; ++i) {{ sum += i; }}
  return sum;
}}
"""


def file(head, note=""):
    """A source whose function says `head`."""
    return "namespace a {\nnamespace {\n" + SUM.format(head=head, note=note) + "\n}  // namespace\n}  // namespace a\n"


class Functions(unittest.TestCase):
    def test_each_is_named_with_its_place(self):
        text = file("/// Of many.\nint sum(int n)") + 'TEST_CASE("a") {\n  CHECK(sum(2) == 1);\n}\n'
        self.assertEqual(
            [(f.name, f.line, f.lines) for f in pasted.functions(text)], [("sum", 5, 5), ("TEST_CASE", 13, 3)]
        )

    def test_members_and_operators_are_functions_too(self):
        text = """
            struct A final : B {
              A(int n) : n_(n) { go(); }
              bool operator==(const A&) const { return 1; }
            };"""
        self.assertEqual(
            [(f.name, f.body) for f in pasted.functions(text)], [("A", "go();"), ("operator==", "return 1;")]
        )

    def test_values_lambdas_and_text_are_none(self):
        text = """
            const Layer same = [](Value h) { return h; };
            const int all[] = {1, 2};
            enum class E { one };
            const char* program = R"(int f() { return 1; })";
            #define MACRO(x) int g() { return x; }
            """
        self.assertEqual(list(pasted.functions(text)), [])


class Pasted(unittest.TestCase):
    def test_one_body_in_two_files(self):
        self.assertEqual(
            pasted.pasted({"a.cc": file("int sum(int n)"), "b.h": file("inline int total(long n)", "  // of all")}),
            ["sum (a.cc:4) and total (b.h:4) have one body: move it into a header that they include"],
        )

    def test_text_in_it_counts(self):
        one = file("int sum(int n)").replace("return sum", 'return at("//a", sum)')
        self.assertEqual(pasted.pasted({"a.cc": one, "b.cc": one.replace("//a", "//b")}), [])

    def test_short_ones_empty_ones_and_two_of_one_file_are_none(self):
        short = "int f(int n) {\n  go();\n  return n;\n}\n"
        empty = "A::A(int a,\n     int b)\n    : a(a),\n      b(b)\n{\n}\n"
        self.assertEqual(pasted.pasted({"a.cc": short + empty, "b.cc": short + empty}), [])
        self.assertEqual(pasted.pasted({"a.cc": file("int f(int n)") + file("int g(int n)")}), [])


class Tree(unittest.TestCase):
    def test_tests_have_none(self):
        sources = {
            str(path): path.read_text(encoding="utf-8")
            for path in pathlib.Path("tests").rglob("*")
            if path.suffix in (".h", ".cc")
        }
        self.assertGreater(len(sources), 200)  # the test sees what it is to read
        self.assertGreater(sum(len(list(pasted.functions(text))) for text in sources.values()), 2000)
        self.assertEqual(pasted.pasted(sources), [])


if __name__ == "__main__":
    unittest.main()
