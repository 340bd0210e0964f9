// Identities that the ops of this folder know: what `fold` leaves of a graph.
#include "graph/passes/fold.h"

#include <doctest/doctest.h>

#include <string>

#include "graph/builder/graph.h"
#include "graph/passes/prune.h"
#include "ops/expr/functions.h"

namespace metronome::fold_test {
namespace {

/// Returns the nodes that are left to compute after folding, printed.
std::string folded(const ir::Graph& graph) {
  return passes::prune(passes::fold(graph, {}), {}).print();
}

TEST_CASE("adding nothing and multiplying by one") {
  Graph g("g");
  const auto x = g.input("x", f32, {2, 3});
  g.output("y", ((x + 0.0) * 1.0 - 0.0) / 1.0);
  CHECK(folded(g) == R"(graph "g"
  %0 = input x : f32[2, 3]
  "y" is %0
)");
}

TEST_CASE("what changes the shape is no identity") {
  Graph g("g");
  const auto x = g.input("x", f32, {3});
  g.output("y", x + expand(g.constant(0, f32), {2, 3}));
  CHECK(folded(g) == R"(graph "g"
  %0 = input x : f32[3]
  %1 = fill() {0} : f32[]  "constant"
  %2 = expand(%1) {[2, 3]} : f32[2, 3]  "expand"
  %3 = add(%0, %2) : f32[2, 3]  "add"
  "y" is %3
)");
}

TEST_CASE("twice negated, twice denied, the first power") {
  Graph g("g");
  const auto x = g.input("x", f32, {3});
  g.output("y", where(logical_not(logical_not(x > 0.0)), -(-x), pow(x, 1.0)));
  CHECK(folded(g) == R"(graph "g"
  %0 = input x : f32[3]
  %1 = fill() {0} : f32[]  "constant"
  %2 = greater(%0, %1) : bool[3]  "greater"
  %3 = where(%2, %0, %0) : f32[3]  "where"
  "y" is %3
)");
}

TEST_CASE("the second power is a square") {
  Graph g("g");
  g.output("y", pow(g.input("x", f32, {3}), 2.0));
  CHECK(folded(g) == R"(graph "g"
  %0 = input x : f32[3]
  %1 = square(%0) : f32[3]  "pow_scalar/square"
  "y" is %1
)");
}

TEST_CASE("an operand that is broadcast anyway is not expanded first") {
  Graph g("g");
  const auto x = g.input("x", f32, {2, 3});
  const auto row = g.input("row", f32, {3});
  g.output("y", x * expand(row, {2, 3}));
  CHECK(folded(g) == R"(graph "g"
  %0 = input x : f32[2, 3]
  %1 = input row : f32[3]
  %2 = mul(%0, %1) : f32[2, 3]  "mul/mul"
  "y" is %2
)");
}

TEST_CASE("one of two expansions has to stay") {
  Graph g("g");
  const auto row = g.input("row", f32, {3});
  g.output("y", expand(row, {2, 3}) + expand(row, {2, 3}));
  CHECK(folded(g) == R"(graph "g"
  %0 = input row : f32[3]
  %1 = expand(%0) {[2, 3]} : f32[2, 3]  "expand"
  %2 = add(%0, %1) : f32[2, 3]  "add/add"
  "y" is %2
)");
}

TEST_CASE("views of views") {
  Graph g("g");
  const auto x = g.input("x", f32, {4, 6});
  g.output("y", x.reshape({24}).reshape({3, 8}).reshape({8, 3}).slice(0, 2, 7).slice(0, 1, 3));
  CHECK(folded(g) == R"(graph "g"
  %0 = input x : f32[4, 6]
  %1 = reshape(%0) {[8, 3]} : f32[8, 3]  "reshape_2/reshape"
  %2 = slice(%1) {0, 3:5} : f32[2, 3]  "slice_1/slice"
  "y" is %2
)");
}

TEST_CASE("there and back") {
  Graph g("g");
  const auto x = g.input("x", f32, {4, 6, 5});
  const auto there = permute(x, {2, 0, 1});
  g.output("y", permute(there, {1, 2, 0}).cast(f32).reshape({4, 6, 5}));
  CHECK(folded(g) == R"(graph "g"
  %0 = input x : f32[4, 6, 5]
  "y" is %0
)");
}

TEST_CASE("a sum over dimensions of one element is a reshape") {
  Graph g("g");
  const auto x = g.input("x", f32, {4, 1, 5});
  g.output("y", sum(x, 1));
  CHECK(folded(g) == R"(graph "g"
  %0 = input x : f32[4, 1, 5]
  %1 = reshape(%0) {[4, 5]} : f32[4, 5]  "sum/reshape"
  "y" is %1
)");
}

}  // namespace
}  // namespace metronome::fold_test
