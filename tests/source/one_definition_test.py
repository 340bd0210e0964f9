"""Names that a namespace holds twice: planted ones are found, and this tree has none."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import one_definition  # noqa: E402

FOLDERS = ("benchmarks", "distributed", "example", "executor", "graph", "include", "models", "ops", "tests")


def names(text, header=True):
    return [name for name, _ in one_definition.definitions(text, header)]


class Definitions(unittest.TestCase):
    def test_types_carry_their_namespace(self):
        text = """
            namespace a { namespace b::c {
            struct One { struct Inner {}; int x; };
            class Two final : public One {};
            union Three { int i; };
            enum class Four : int { one, two };
            template <class T> struct Five<T*> { };
            } struct alignas(16) Six { };
            template <class T> struct alignas(sizeof(T) * 2) Seven {}; }
            """
        self.assertEqual(
            names(text),
            [
                "a::b::c::One",
                "a::b::c::Two",
                "a::b::c::Three",
                "a::b::c::Four",
                "a::b::c::Five<T*>",
                "a::Six",
                "a::Seven",
            ],
        )

    def test_declarations_values_and_text_do_not_count(self):
        text = """
            namespace a {
            class Later; struct One* f(); struct One g() { return {}; }
            const One kOne = {1}; // struct Comment {
            /* struct Comment { */ const char* t = "struct Text {"; const char c = '{';
            #define MACRO(x) struct Macro { \\
              x; }
            const char* r = R"(struct Raw {)";
            }"""
        self.assertEqual(names(text), [])

    def test_what_is_unnamed_is_internal(self):
        self.assertEqual(names("namespace a { namespace { struct One {}; } struct Two {}; }"), ["a::Two"])

    def test_inline_functions_and_templates_of_implementations(self):
        text = """
            namespace a {
            inline int f(int x) { return x; }
            template <class T> T g(T x) { if (x) { return x; } return x; }
            int h() { return 1; }
            static inline int i() { return 1; }
            }"""
        self.assertEqual(names(text, header=False), ["a::f(int x)", "a::g(T x)"])
        self.assertEqual(names(text), [])

    def test_two_files_clash_two_branches_of_one_do_not(self):
        one = "namespace a { struct Block { int x; }; }"
        branches = "namespace a {\n#if X\nstruct Simd {};\n#else\nstruct Simd {};\n#endif\n}"
        self.assertEqual(one_definition.duplicates({"x.h": one, "y.h": branches}), [])
        self.assertEqual(
            one_definition.duplicates({"x.h": one, "y.cc": "\n" + one}),
            [
                "a::Block is defined twice: x.h:1, y.cc:2; rename one, or put what is internal to "
                "a file into an unnamed namespace"
            ],
        )

    def test_a_constant_that_hides_a_headers(self):
        header = "namespace a::b {\nconstexpr int kRows = 4;\nvoid f();\n}"
        hides = "namespace a::b { namespace {\nconst T kRows[] = {1, 2};\n} }"
        inner = "namespace a::b::c { namespace { constexpr int kRows{2}; } }"
        apart = "namespace a { namespace { constexpr int kRows = 2; } }"
        local = "namespace a::b { namespace { void g() { constexpr int kRows = 2; } } }"
        texts = {"x.h": header, "hides.cc": hides, "inner.cc": inner, "apart.cc": apart, "local.cc": local}
        self.assertEqual(
            one_definition.hidden(texts),
            [
                "hides.cc:2: kRows hides that of x.h:2; rename it",
                "inner.cc:1: kRows hides that of x.h:2; rename it",
            ],
        )


class Tree(unittest.TestCase):
    def test_no_name_twice(self):
        files = [
            file
            for folder in FOLDERS
            for file in pathlib.Path(folder).rglob("*")
            if file.suffix in (".h", ".cc", ".cu")
        ]
        self.assertGreater(len(files), 500)
        texts = {str(f): f.read_text() for f in files}
        self.assertEqual(one_definition.duplicates(texts), [])
        self.assertEqual(one_definition.hidden(texts), [])


if __name__ == "__main__":
    unittest.main()
