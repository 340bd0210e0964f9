// Sums of results of one op that become one node: the printed graph after the pass.
#include "graph/passes/gather.h"

#include <doctest/doctest.h>

#include "graph/emit/emitter.h"
#include "graph/ir/structural.h"
#include "graph/passes/prune.h"
#include "graph/rules/gather.h"
#include "tests/graph/after.h"
#include "tests/graph/test_ops.h"
#include "tests/graph/waiting.h"

namespace metronome::testing::gather_test {
namespace {

/// The sum over rows; of several together that of all their rows, where none has more than four.
struct SumRows {
  static constexpr std::string_view name = "sum_rows";
  static constexpr bool differentiable = false;
  bool operator==(const SumRows&) const = default;
  Types infer(std::span<const Type> in) const { return {Type{f32, {in[0].shape[1]}}}; }
  Value gather(std::span<const Addend> addends) const {
    Values all;
    for (const Addend& addend : addends) {
      if (addend.inputs[0].size(0) > 4) return {};
      all.push_back(addend.inputs[0]);
    }
    return apply(SumRows{}, {apply(make_op(Stack{}), all, Line::here())[0]}, Line::here());
  }
};

Value sum_rows(Value x) { return apply(SumRows{}, {x}, Line{"rows.cc", 1}); }

Settings gathering() {
  Settings settings;
  settings.gathers = true;
  return settings;
}

std::string gathered(const ir::Graph& graph) {
  return after(passes::prune, passes::gather(graph, gathering()));
}

struct Steps {
  Graph g{"g"};
  Value a = g.input("a", f32, {3, 2}), b = g.input("b", f32, {3, 2}), c = g.input("c", f32, {3, 2});
};

TEST_CASE("what a sum adds of one op becomes one node over stacked operands") {
  Steps s;
  const Value other = s.g.input("other", f32, {2});
  const Value a = sum_rows(s.a), b = sum_rows(s.b), c = sum_rows(s.c);
  s.g.output("sum", accumulate(accumulate(a, other), accumulate(b, c)));
  CHECK(gathered(s.g) ==
        "graph \"g\"\n"
        "  %0 = input a : f32[3, 2]\n"
        "  %1 = input b : f32[3, 2]\n"
        "  %2 = input c : f32[3, 2]\n"
        "  %3 = input other : f32[2]\n"
        "  %4 = stack(%0, %1, %2) : f32[9, 2]  \"sum_rows/stack\"\n"
        "  %5 = sum_rows(%4) : f32[2]  \"sum_rows/sum_rows\"\n"
        "  %6 = accumulate(%5, %3) : f32[2]  \"accumulate_2/accumulate\"\n"
        "  \"sum\" is %6\n");
}

/// Row `row` of `rows`, the others are zero; all rows together are a stack.
struct Row {
  static constexpr std::string_view name = "row";
  static constexpr bool differentiable = false;
  std::int64_t row = 0, rows = 0;
  bool operator==(const Row&) const = default;
  std::string attributes() const { return fmt::format("{} of {}", row, rows); }
  Types infer(std::span<const Type> in) const { return {Type{f32, {rows, in[0].shape[1]}}}; }
  bool gathers_with(const Op& other) const {
    return other.as<Row>() != nullptr && other.as<Row>()->rows == rows;
  }
  Value gather(std::span<const Addend> addends) const {
    Values all(rows);
    for (const Addend& addend : addends) all[addend.op->as<Row>()->row] = addend.inputs[0];
    return apply(make_op(Stack{}), all, Line::here())[0];
  }
};

TEST_CASE("ops of other attributes are gathered where they say so") {
  Graph g("g");
  const Value x = g.input("x", f32, {1, 3}), y = g.input("y", f32, {1, 3});
  const auto row = [](Value of, std::int64_t row) {
    return apply(Row{row, 2}, {of}, Line::here());
  };
  g.output("sum", accumulate(row(y, 1), row(x, 0)));
  CHECK(gathered(g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[1, 3]\n"
        "  %1 = input y : f32[1, 3]\n"
        "  %2 = stack(%0, %1) : f32[2, 3]  \"row/stack\"\n"
        "  \"sum\" is %2\n");
}

TEST_CASE("a sum stays as it is") {
  Steps s;
  const auto sum = [&] {
    const Value a = sum_rows(s.a), b = sum_rows(s.b);
    return accumulate(a, b);
  };
  Settings settings = gathering();
  SUBCASE("where the target does not gather") {
    settings.gathers = false;
    s.g.output("sum", sum());
  }
  SUBCASE("of one result of each op") {
    const Value x = s.g.input("x", f32, {2});
    s.g.output("sum", accumulate(sum_rows(s.a), scale(x, 2)));
  }
  SUBCASE("of what something else reads, too") {
    const Value read = sum_rows(s.a);
    s.g.output("read", read);
    s.g.output("sum", accumulate(read, sum_rows(s.b)));
  }
  SUBCASE("of operands for which the rule has no node") {
    const Value d = s.g.input("d", f32, {5, 2}), e = s.g.input("e", f32, {5, 2});
    s.g.output("sum", accumulate(sum_rows(d), sum_rows(e)));
  }
  SUBCASE("of an operand that waits, as what is made again does") {
    const Value again = waiting(s.g, "again", Scale{2}, {s.a}, {scale(s.c, 2)});
    s.g.output("sum", accumulate(sum_rows(again), sum_rows(s.b)));
  }
  SUBCASE("of a view of such an operand") {
    const Value again = waiting(s.g, "again", Scale{2}, {s.a}, {scale(s.c, 2)});
    s.g.output("sum", accumulate(sum_rows(s.b), sum_rows(head(again, 1, 2))));
  }
  SUBCASE("of what a guard may skip") {
    const Value go = s.g.input("go", bool_, {});
    const auto guarded = [&](OpPtr op, std::vector<ValueId> inputs) {
      return s.g.emitter().graph.append(
          Node{std::move(op), std::move(inputs), {}, "n", Line{}, go.id()});
    };
    const ValueId left = guarded(make_op(SumRows{}), {s.a.id()});
    const ValueId right = guarded(make_op(SumRows{}), {s.b.id()});
    s.g.output("sum", s.g.value(guarded(make_op(Accumulate{}), {left, right})));
  }
  CHECK(passes::gather(s.g, settings).print() == s.g.print());
}

TEST_CASE("a sum that something else reads ends where it is read") {
  Steps s;
  const Value a = sum_rows(s.a), b = sum_rows(s.b), two = accumulate(a, b);
  s.g.output("two", two);
  s.g.output("three", accumulate(two, sum_rows(s.c)));
  const ir::Graph result = passes::prune(passes::gather(s.g, gathering()), {});
  CHECK(gathered(s.g).find("%3 = stack(%0, %1)") != std::string::npos);
  // Three inputs, the stack, its sum, the third's and what adds it.
  CHECK(result.nodes().size() == 7);
}

}  // namespace
}  // namespace metronome::testing::gather_test
