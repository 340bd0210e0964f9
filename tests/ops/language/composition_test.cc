// Refusals of the verbs that join streams, in whole messages.
#include <string>

#include "graph/builder/graph.h"
#include "graph/ir/error.h"
#include "ops/expr/functions.h"
#include "ops/language/layers.h"
#include "tests/doctest.h"
#include "tests/graph/mistake_of.h"

namespace metronome::composition_test {
namespace {

Line at(int number) { return {"tower.cc", number}; }

/// The one mistake of applying a verb to an input "x" f32[4, 6].
std::string mistake_of(const Layer& verb) {
  Graph g("tower");
  CHECK(verb(g.input("x", f32, {4, 6}, at(1)), at(2)).poisoned());
  return testing::mistake_of(g);
}

TEST_CASE("gate: a router of other rows, another number of experts, experts of other shapes") {
  const auto gated = [](Layer router, Layers experts) {
    return mistake_of([=](Value x, Line line) { return x.gate(router, experts, line); });
  };
  const Layers two = {gelu, relu};
  CHECK(
      gated([](Value x) { return x.reshape({6, 4}, at(3)); }, two) ==
      "tower.cc:2: gate cannot weigh its experts\n"
      "  operand 0  f32[4, 6]  \"x\"                    tower.cc:1\n"
      "  operand 1  f32[6, 4]  \"gate/router/reshape\"  tower.cc:3\n"
      "  requires   one weight per row and expert: a router from [4, 6] to [..., experts], but it "
      "gives [6, 4]");
  CHECK(gated(linear(3), two) ==
        "tower.cc:2: gate cannot weigh its experts\n"
        "  operand 0  f32[4, 6]  \"x\"                   tower.cc:1\n"
        "  operand 1  f32[4, 3]  \"gate/router/linear\"  tower.cc:2\n"
        "  requires   as many experts as the router has columns, but 2 and 3");
  CHECK(gated(linear(2), {gelu, linear(5)}) ==
        "tower.cc:2: add cannot join the graph as \"gate/1/add\"\n"
        "  operand 0  f32[4, 6]  \"gate/0/mul\"  tower.cc:2\n"
        "  operand 1  f32[4, 5]  \"gate/1/mul\"  tower.cc:2\n"
        "  requires   equal last dimensions, or one of them 1, but 6 and 5");
}

TEST_CASE("also: branches of other shapes") {
  CHECK(mistake_of([](Value x, Line line) { return x.also(linear(5), line); }) ==
        "tower.cc:2: add cannot join the graph as \"add\"\n"
        "  operand 0  f32[4, 6]  \"x\"       tower.cc:1\n"
        "  operand 1  f32[4, 5]  \"linear\"  tower.cc:2\n"
        "  requires   equal last dimensions, or one of them 1, but 6 and 5");
  CHECK(mistake_of([](Value x, Line line) { return x.also(linear(5), linear(3), line); }) ==
        "tower.cc:2: add cannot join the graph as \"add\"\n"
        "  operand 0  f32[4, 3]  \"linear_1\"  tower.cc:2\n"
        "  operand 1  f32[4, 5]  \"linear\"    tower.cc:2\n"
        "  requires   equal last dimensions, or one of them 1, but 3 and 5");
}

TEST_CASE("split and merge: branches of other element types") {
  CHECK(mistake_of([](Value x, Line line) {
          return x.split(gelu, [](Value h) { return h.cast(f64, at(3)); }, line).merge(mean, line);
        }) ==
        "tower.cc:2: add cannot join the graph as \"add\"\n"
        "  operand 0  f32[4, 6]  \"split/0/gelu\"  tower.cc:2\n"
        "  operand 1  f64[4, 6]  \"split/1/cast\"  tower.cc:3\n"
        "  requires   equal element types, but f32 and f64\n"
        "  way out    cast operand 0 to f64: x.cast(mt::f64)");
}

}  // namespace
}  // namespace metronome::composition_test
