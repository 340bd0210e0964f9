// `choose` of several values, as a graph, and its mistakes.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "graph/check/verify.h"
#include "graph/emit/emitter.h"
#include "graph/ir/error.h"
#include "tests/graph/mistake_of.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::choose_several_test {
namespace {

Values same(const Values& xs) { return xs; }
Values swapped(const Values& xs) { return {scale(xs[1], 2, at(5)), scale(xs[0], 3, at(6))}; }

TEST_CASE("a merge for each result, which reads the guards of all branches but the last") {
  Graph g("g");
  const Value x = g.input("x", f32, {2}, at(1)), y = g.input("y", f32, {2}, at(1));
  const Values made =
      choose({x, y}, g.input("which", i32, {}, at(2)), {swapped, same, same}, at(3));
  REQUIRE(made.size() == 2);
  g.output("a", made[0]);
  g.output("b", made[1]);
  g.validate();
  check::verify(g.data(), "declare");
  CHECK(g.data().print() ==
        "graph \"g\"\n"
        "  %0 = input x : f32[2]\n"
        "  %1 = input y : f32[2]\n"
        "  %2 = input which : i32[]\n"
        "  %3 = guard(%2) {when=0 of 3} : bool[]  \"choose/guard\"\n"
        "  %4 = scale(%1) {factor=2} if %3 : f32[2]  \"choose/0/scale\"\n"
        "  %5 = scale(%0) {factor=3} if %3 : f32[2]  \"choose/0/scale_1\"\n"
        "  %6 = guard(%2) {when=1 of 3} : bool[]  \"choose/guard_1\"\n"
        "  %7 = guard(%2) {when=2 of 3} : bool[]  \"choose/guard_2\"\n"
        "  %8 = merge(%3, %4, %6, %0, %0) : f32[2]  \"choose/merge\"\n"
        "  %9 = merge(%3, %5, %6, %1, %1) : f32[2]  \"choose/merge_1\"\n"
        "  \"a\" is %8\n"
        "  \"b\" is %9\n");
}

/// The mistake of choosing among branches; two results can be read all the same.
std::string mistake_of(const std::vector<BranchBody>& branches, Type selector = {bool_, {}}) {
  return testing::mistake_of([&](Graph& g) {
    const Value x = g.input("x", f32, {4}, at(1)), y = g.input("y", f32, {4}, at(1));
    const Value which = g.input("which", selector.element, selector.shape, at(2));
    const Values made = choose({x, y}, which, branches, at(7));
    REQUIRE(!made.empty());
    CHECK(made[0].poisoned());
  });
}

const std::string kOperands =
    "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
    "  operand 1  f32[4]  \"y\"  tower.cc:1\n";

TEST_CASE("branches that cannot be joined") {
  const auto first = [](const Values& xs) { return Values{xs[0]}; };
  const auto halves = [](const Values& xs) { return Values{xs[0], head(xs[1], 0, 2, at(5))}; };
  const auto none = [](const Values&) { return Values(); };
  const auto absent = [](const Values& xs) { return Values{xs[0], Value()}; };
  const std::string cannot = "tower.cc:7: choose cannot join its branches\n";
  CHECK(mistake_of({same, first}) ==
        cannot +
            "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
            "  requires   as many results from each branch, but branch 0 gives 2 and branch 1 1");
  CHECK(mistake_of({same, halves}) ==
        cannot +
            "  operand 0  f32[4]  \"y\"              tower.cc:1\n"
            "  operand 1  f32[2]  \"choose/1/head\"  tower.cc:5\n"
            "  requires   branches of one type, but branch 0 gives f32[4] and branch 1 f32[2]");
  CHECK(mistake_of({none, same}) ==
        cannot + kOperands +
            "  requires   one result or more of a branch, but branch 0 gives none");
  CHECK(mistake_of({same, absent}) ==
        cannot + kOperands +
            "  requires   a branch that returns a value, but it returned an absent one (a "
            "default-made Value)");
}

TEST_CASE("branches that cannot be, and a selector that cannot") {
  CHECK(mistake_of({}) == "tower.cc:7: choose cannot make branches\n" + kOperands +
                              "  requires   1 to 64 branches, but 0");
  CHECK(mistake_of({same, BranchBody()}) ==
        "tower.cc:7: choose cannot call a branch\n" + kOperands +
            "  requires   branches that can be called, but one is a null pointer or an empty "
            "std::function");
  CHECK(mistake_of({same, same, same}) ==
        "tower.cc:7: choose cannot take the selector\n"
        "  operand 0  f32[4]  \"x\"      tower.cc:1\n"
        "  operand 1  bool[]  \"which\"  tower.cc:2\n"
        "  requires   2 branches for a boolean selector, but 3");
  CHECK(mistake_of({same, same}, {f32, {4}}).find("but f32[4]\n  way out    reduce it") !=
        std::string::npos);
}

TEST_CASE("a mistake in a branch is the only one, and as many poisoned results follow it") {
  const auto fails = [](const Values& xs) {
    return Values{xs[0], plus(xs[0], head(xs[1], 0, 2, at(5)), at(8))};
  };
  std::size_t results = 0;
  const std::string told = testing::mistake_of([&](Graph& g) {
    const Value x = g.input("x", f32, {4}, at(1)), y = g.input("y", f32, {4}, at(1));
    const Values made = choose({x, y}, g.input("which", bool_, {}, at(2)), {fails, fails}, at(7));
    results = made.size();
    g.output("y", plus(made[0], made[1], at(9)));
  });
  CHECK(results == 2);
  CHECK(told.starts_with("tower.cc:8: plus cannot join the graph as \"choose/0/plus\"\n"));
  CHECK(told.find("tower.cc:9") == std::string::npos);
  Graph g("g");
  const Value x = g.input("x", f32, {4}, at(1));
  CHECK(choose({x, x}, x, {same, same}, at(7)).size() == 2);
  CHECK_THROWS_WITH_AS(choose({}, x, {same}, at(7)),
                       "tower.cc:7: choose takes no value\n  requires   one value or more",
                       GraphError);
}

}  // namespace
}  // namespace metronome::testing::choose_several_test
