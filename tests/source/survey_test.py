"""The survey of the tree: what it counts in planted sources, and that it sees this tree."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import survey  # noqa: E402

HEADER = """
namespace a {
enum class Kind { one, made };
class Op {
 public:
  virtual ~Op() = default;
  virtual std::string name() const = 0;
  virtual bool saved(std::span<const Type> inputs = {}) const { return false; }
  static constexpr int kMost = 3;
  using Fed = std::map<int, int>;

 private:
  std::map<int, std::vector<int>> values_ = {{1, {2, 3}}, {4, {}}};
  std::function<void(int, int)> call_;
  void (*mistake_)(Op& op);
  int begin_ = least(1, 2), end_{7};
  struct PassedNode { int number; };
};
template <class T>
struct Outer::Kept final : Op { T number; };
bool known(int value);
Op make_known(const Op& op);
inline int Op::told() const { Begun local; return count(local); }
}  // namespace a
"""


class Contents(unittest.TestCase):
    def test_classes_types_and_functions_are_found(self):
        found = survey.contents(HEADER)
        self.assertEqual(
            [(each.name, each.line, each.members, each.virtuals) for each in found.classes],
            [("Op", 4, 5, 2), ("PassedNode", 17, 1, 0), ("Outer::Kept", 20, 1, 0)],
        )
        self.assertEqual(found.types, ["Kind", "Op", "Fed", "PassedNode", "Kept"])
        self.assertEqual(found.functions, ["~Op", "name", "saved", "known", "make_known", "told"])

    def test_macros_that_are_called_before_them_are_none(self):
        called = "METRONOME_MEMBER(in_place, std::vector<InPlace>, ())\nMETRONOME_MEMBER(flops, double, (int, int))\n"
        rows, _ = survey.survey({"graph/ir/op_model.h": called + HEADER})
        self.assertEqual(rows[-1][1], "1 (Op::told, graph/ir/op_model.h:25)")
        self.assertEqual(survey.contents(called + HEADER).types, survey.contents(HEADER).types)

    def test_a_participle_is_a_bare_one(self):
        found = {"graph/a.h": survey.contents(HEADER), "graph/a.cc": survey.contents("int told() {}\nstruct Seed {};")}
        self.assertEqual([name for name, _, _ in survey.participles("types", found)], ["Fed", "Kept"])
        self.assertEqual([name for name, _, _ in survey.participles("functions", found)], ["known", "saved", "told"])
        for name, last in [("PassedNode", "Node"), ("NodePassed", "Passed"), ("Embedding", "Embedding"), ("Lu2d", "d")]:
            self.assertEqual(survey.last_word(name), last)
        self.assertFalse(any(map(survey.is_participle, ("Seed", "Feed", "Embedding", "Node"))))
        self.assertTrue(all(map(survey.is_participle, ("Begun", "Placed", "Tracing"))))


class Survey(unittest.TestCase):
    def test_a_planted_tree(self):
        texts = {
            "graph/ir/op.h": HEADER,
            "ops/a.cc": "// One.\nint made() {\n\n  return 1;  // here\n}\n",
            "tests/graph/a_test.cc": "// Two.\n\nint x;\n",
            "DESIGN.md": "One two three. Four.\n",
            "docs/design/memory.md": "One two three four.\n",
        }
        rows, named = survey.survey(texts)
        self.assertEqual(
            [number for _, number in rows],
            [
                "2",
                "2 (2 names)",
                "4 (4 names)",
                "8",
                "4 (docs/design/memory.md:1)",
                "5 (Op, graph/ir/op.h:4)",
                "1 (graph/ir, ops, tests/graph)",
                "1",
                "26",
                "2",
                "22 (graph/ir/op.h)",
                "4 (made, ops/a.cc:2)",
            ],
        )
        self.assertEqual(named["types"][0], ("Fed", "graph/ir/op", "graph/ir/op.h"))
        lines = survey.table(["A", "B"], [rows, rows]).split("\n")
        self.assertEqual(lines[:3], ["| | A | B |", "|---|---|---|", "| virtual functions of `Op` | 2 | 2 |"])

    def test_this_tree_is_seen(self):
        texts = survey.read_work_tree(pathlib.Path("."))
        self.assertGreater(len(texts), 700)  # the test sees what it is to read
        rows, _ = survey.survey(texts)
        for what, number in rows:
            self.assertRegex(number, r"^\d", what)


if __name__ == "__main__":
    unittest.main()
