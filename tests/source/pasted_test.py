"""Pasted functions and shells: planted ones are found, in these words, and this tree has none."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import pasted  # noqa: E402

PRODUCT = ("benchmarks", "distributed", "example", "executor", "graph", "models", "ops")

SUM = """
{head} {{
  int sum = 0;{note}
  for (int i = 0; i < n; ++i) {{ sum += i; }}
  return sum;
}}
"""

SHELL = """
template <class T>
struct {name} {{
  static constexpr const char* name = "{text}";
  {tensors}<T> tensors;
  Channels channels;

  void operator()(Context& c) const {{
    for_slices(c, channels, *this);
  }}
  void slice(Context& c) const {{
    {call}(c, channels);
  }}
}};
"""


def shell(name, text, tensors, call="tensors.write"):
    """A kernel around `tensors`."""
    return SHELL.format(name=name, text=text, tensors=tensors, call=call)


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

    def test_macros_that_are_called_before_them_are_none(self):
        text = """
METRONOME_MEMBER(infer, Types, (std::span<const Type>))
METRONOME_CONSTANT(saved, int)

namespace a {
METRONOME_FUNCTION(ceil)
int sum(int n) { return n; }
}
METRONOME_CALL(zero) {
}
"""
        found = [(f.name, f.line, f.lines) for f in pasted.functions(text)]
        self.assertEqual(found, [("sum", 7, 1), ("METRONOME_CALL", 9, 2)])


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


class Shells(unittest.TestCase):
    def test_two_types_around_two_names(self):
        one, other = shell("Forward", "norm", "Tensors"), shell("Backward", "norm_grad", "GradTensors")
        words = 'differ in nothing but "norm" / "norm_grad", Tensors / GradTensors: make them one'
        self.assertEqual(
            pasted.shells({"a.h": one + other}), [f"Forward (a.h:2) and Backward (a.h:16) {words}"]
        )
        self.assertEqual(
            pasted.shells({"a.h": one, "b.h": other}), [f"Forward (a.h:2) and Backward (b.h:2) {words}"]
        )

    def test_each_of_several_is_named_once(self):
        text = shell("A", "a", "Tensors") + shell("B", "b", "Tensors") + shell("C", "a", "Tensors")
        self.assertEqual(
            pasted.shells({"a.h": text}),
            [
                'A (a.h:2) and B (a.h:16) differ in nothing but "a" / "b": make them one',
                "A (a.h:2) and C (a.h:30) differ in nothing: make them one",
            ],
        )

    def test_functions_that_name_themselves(self):
        text = "int {0}(int n) {{\n" + "  go();\n" * 6 + "  return {0}(n, {1});\n}}\n"
        self.assertEqual(
            pasted.shells({"a.cc": text.format("f", "kOne") + text.format("g", "kTwo")}),
            ["f (a.cc:1) and g (a.cc:10) differ in nothing but kOne / kTwo: make them one"],
        )
        text = text.replace("  go();\n", "", 1)
        self.assertEqual(pasted.shells({"a.cc": text.format("f", "kOne") + text.format("g", "kTwo")}), [])

    def test_more_differences_and_other_signs_are_none(self):
        one = shell("Forward", "norm", "Tensors")
        for other in (shell("Backward", "norm_grad", "GradTensors", "tensors.sum"), one.replace("*this", "this")):
            self.assertEqual(pasted.shells({"a.h": one, "b.h": other}), [])

    def test_declarations_and_test_cases_are_none(self):
        op = "struct {0} {{\n" + "  int a() const;\n" * 9 + "  int b() const {{ return 1; }}\n}};\n"
        case = 'TEST_CASE("{0}") {{\n' + "  go();\n" * 9 + "  CHECK({0});\n}}\n"
        for text in (op, case):
            self.assertEqual(pasted.shells({"a.h": text.format("A") + text.format("B")}), [])


class Tree(unittest.TestCase):
    def sources(self, *folders):
        return {
            str(path): path.read_text(encoding="utf-8")
            for folder in folders
            for path in pathlib.Path(folder).rglob("*")
            if path.suffix in (".h", ".cc", ".cu")
        }

    def test_nothing_has_shells(self):
        sources = self.sources(*PRODUCT, "tests")
        self.assertGreater(len(sources), 1000)
        self.assertEqual(pasted.shells(sources), [])

    def test_tests_have_no_pasted_functions(self):
        sources = self.sources("tests")
        self.assertGreater(len(sources), 200)  # the test sees what it is to read
        self.assertGreater(sum(len(list(pasted.functions(text))) for text in sources.values()), 2000)
        self.assertEqual(pasted.pasted(sources), [])


if __name__ == "__main__":
    unittest.main()
