"""docs/names.md says what the headers say."""

import re
import unittest
from pathlib import Path

import names

HEADER = """// Layers and losses.
// In two lines.
//
// And more.
#pragma once

namespace metronome {

/// Who chooses.
enum class Chooser : std::uint8_t {
  row,  ///< each row
  /// Each expert,
  /// in turn.
  expert,
};
enum class Kind : std::uint8_t { mean, sum };

// ---- functions ---------------------------------------------------------------------------------

/// Both.
inline constexpr UnaryFunction floor{Function::floor};
inline constexpr UnaryFunction ceil{Function::ceil};
inline constexpr UnaryFunction round{Function::round};  ///< to even
inline constexpr UnaryFunction trunc{Function::trunc};
/// The root.
inline constexpr UnaryFunction sqrt{Function::sqrt};  ///< of none below 0

struct DropOptions {
  double p = 0.5, q = 1;  ///< |p| below 1
  /// Absent: none.
  Value mask = {};
  Value
      last;  ///< of a name that does not fit its type's line: 1, 2, ...
  std::chrono::milliseconds wait{30'000};  ///< for so long,
                                           ///< or longer
  bool operator==(const DropOptions&) const = default;
};
/// Zeroes some x[e](h), or l<k>/, as in
///
/// a paper.
Value drop(Value x, const std::vector<std::int64_t>& axes = {}, DropOptions options = {.p = 1},
           Line line = Line::here());
template <class T>
Layer drop(T p = 0, DropOptions options = {});
Value bare(Value x);

/// Of each element.
Value operator+(Operand x, Operand y);
Value operator-(Operand x);

void require_it(bool it);

/// Rules of an op, which is no word of a program.
struct Halve {
  static constexpr std::string_view name = "halve";
  Types infer(std::span<const Type> in) const;
};

/// Holds a value, as in
///
///   Held held(x, 2);
///   held.twice();
class Held {
 public:
  Held(Held&&) noexcept;
  /// Takes it.
  explicit Held(Value x,
                int times = 1)
      : x_(x) {}
  ~Held();

  Value operator()(Value x) const { return x; }
  /// Two of it.
  Value twice(Line line = Line::here()) const;
  Value twice(const std::function<Value(Value, int)>& body) const {
    return body(x_, 2);
  }
  const Type& type() const;  ///< as it was

 private:
  /// Nobody's business.
  Value hidden() const;
  Value x_;
};

namespace metrics {

/// A share.
Value share(Value x);

}  // namespace metrics

}  // namespace metronome
"""

TABLE = """## ops/x.h
Layers and losses. In two lines.

| name | meaning |
|---|---|
| `Chooser` | Who chooses. `row`: each row; `expert`: Each expert, in turn |
| `Kind` | Who chooses. `mean`; `sum` |
| `floor`, `ceil`, `round`, `trunc` | Both. `round`: to even |
| `sqrt` | The root; of none below 0 |
| `DropOptions` | `.p = 0.5, .q = 1`: \\|p\\| below 1; `.mask`: Absent: none; `.last`: of a name that does not fit its type's line: 1, 2, ...; `.wait = 30'000`: for so long, or longer |
| `drop(x, axes, options = {.p = 1})`, `drop(p = 0, options)`, `bare(x)` | Zeroes some x[e]\\(h), or l\\<k>/, as in a paper. |
| `x + y`, `-x` | Of each element. |
| `Held` | Holds a value, as in `Held held(x, 2); held.twice();` |
| `Held(x, times = 1)` | Takes it. |
| `Held::twice()`, `Held::twice(body)`, `Held::type()` | Two of it. `Held::type()`: as it was |
| `metrics::share(x)` | A share. |
"""


class Names(unittest.TestCase):
    maxDiff = None

    def test_a_header(self):
        expected = TABLE.replace("| `Kind` | Who chooses. ", "| `Kind` | ")
        self.assertEqual(names.section("ops/x.h", HEADER), expected)

    def rows(self, declared):
        return names.rows_of(f"// X.\n\nnamespace metronome {{\n{declared}\n}}  // namespace metronome\n")

    def test_a_comment_behind_a_line_is_said_of_its_declaration_alone(self):
        rows = self.rows("""
/// Functions of these names.
inline constexpr UnaryFunction sin{Function::sin};  ///< of radians
inline constexpr UnaryFunction cos{Function::cos};  ///< of radians
inline constexpr UnaryFunction sqrt{Function::sqrt};
inline constexpr UnaryFunction relu{Function::relu};

/// How far.
Value near(Value x,
           Value y = {});  ///< no further
Value far(Value x);
""")
        of_radians = "`sin`: of radians; `cos`: of radians"
        self.assertEqual(rows[0], [["sin", "cos", "sqrt", "relu"], f"Functions of these names. {of_radians}"])
        self.assertEqual(rows[1:], [[["near(x, y)", "far(x)"], "How far. `near(x, y)`: no further"]])

    def test_a_function_behind_a_type_has_no_comment_of_it(self):
        rows = self.rows("/// A part.\nenum class Part {\n  first,\n};\nstd::string name_of(Part part);\n")
        self.assertEqual(rows, [[["Part"], "A part. `first`"], [["name_of(part)"], ""]])

    def test_a_function_with_default_arguments_is_no_member(self):
        rows = self.rows(
            "/// It.\nstruct It {\n  int depth = 1;\n  std::vector<std::vector<int>> run(int k,\n"
            "      std::initializer_list<Value> of = {}, Options options = {});\n};\n"
        )
        self.assertEqual(rows[0], [["It"], "It. `.depth = 1`"])

    def test_a_function_behind_a_macro_is_no_member(self):
        rows = self.rows("/// Rules.\nstruct Rules {\n  METRONOME_MACRO\n  Values scalars(Value x, Values y = {}) const;\n};\n")
        self.assertNotIn("=", str(rows))

    def test_members_of_declarations_over_several_lines(self):
        rows = self.rows("""
/// All of it.
template <class T>
requires(sizeof(T) > 1)
struct Wide
    : public Base {
  const Graph* graph = nullptr;  ///< not owned
  std::vector<Mode> modes = {
      Mode::train,
      Mode::evaluate,
  };  ///< in this order
  std::function<Value(Value x,
                      int k)>
      body;  ///< of one step
  std::int64_t sizes[2] = {1,
                           2};  ///< of both sides
  std::string text =
      "; // {";  ///< as it is
  struct Inner {
    int depth = 1;  ///< of Inner
  };
  Inner inner{.depth = 2};
  int first  ///< before it is
      = 1;   ///< begun
  Value last;
};
""")
        self.assertEqual(
            rows,
            [
                [
                    ["Wide"],
                    "All of it. `.graph = nullptr`: not owned; `.modes = {Mode::train, Mode::evaluate}`: in this order; "
                    '`.body`: of one step; `.sizes = {1, 2}`: of both sides; `.text = "; // {"`: as it is; '
                    "`.inner = {.depth = 2}`; `.first = 1`: before it is begun; `.last`",
                ]
            ],
        )

    def test_headers_of_the_front_door(self):
        front = '#include <span>\n#include "executor/run/feed.h"  // Feed\n#include "executor/compile/targets.h"\n'
        behind = names.ALSO["executor/compile/targets.h"]
        self.assertEqual(names.headers(front), ["executor/run/feed.h", "executor/compile/targets.h", *behind])

    def test_the_page_is_the_headers(self):
        self.assertEqual(names.PAGE.read_text(encoding="utf-8"), names.page(), "run python3 tests/source/names.py")

    def test_each_name_has_a_meaning(self):
        for path in self.all_headers():
            rows = names.rows_of(Path(path).read_text(encoding="utf-8"))
            self.assertGreater(len(rows), 0, path)
            for called, meaning in rows:
                self.assertTrue(meaning, f"{path}: say of {called} what it is")

    def all_headers(self):
        return [path for front in names.FRONTS for path in names.headers(front.read_text(encoding="utf-8"))]

    def test_the_page_has_each_member_of_each_struct_of_options(self):
        # Members as a reader without a parser finds them: the last word before "=", "{" or ";".
        options, members = 0, 0
        for path in self.all_headers():
            text = re.sub(r"//[^\n]*", "", Path(path).read_text(encoding="utf-8"))
            rows = {called[0]: meaning for called, meaning in names.rows_of(Path(path).read_text(encoding="utf-8"))}
            for name, body in re.findall(r"^struct (\w+Options) \{(.*?)^\};", text, re.M | re.S):
                options += 1
                for declared in body.split(";"):
                    member = re.search(r"(\w+)\s*(?:=.*|\{.*)?$", declared.strip(), re.S)
                    if member and not re.search(r"using|operator|\(", declared.partition("=")[0]):
                        members += 1
                        self.assertRegex(rows[name], rf"`[^`]*\.{member.group(1)}\b", f"{path}: {name}")
        self.assertGreater(options, 40)
        self.assertGreater(members, 150)

    def test_the_page_has_all_options(self):
        page = names.PAGE.read_text(encoding="utf-8")
        not_of_programs = {"KernelOptions", "EagerOptions", "LaunchOptions"}  # of back ends, and of the launcher
        found = set()
        for folder in ("distributed", "executor", "graph", "ops"):
            for path in Path(folder).rglob("*.h"):
                found |= set(re.findall(r"^struct (\w+Options) \{", path.read_text(encoding="utf-8"), re.M))
        self.assertLess(not_of_programs, found)
        for name in found - not_of_programs:
            self.assertIn(f"| `{name}` |", page)


if __name__ == "__main__":
    unittest.main()
