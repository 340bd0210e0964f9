// Mistakes with states and with `unroll`, each with its whole message.
#include <doctest/doctest.h>

#include <string>

#include "tests/graph/mistake_of.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::feedback_test {
namespace {

TEST_CASE("states are fed once, with their own type") {
  const Type scalar{f32, {}};
  CHECK(mistake_of([&](Graph& g) { g.state("s", scalar, {}, at(1)); }) ==
        "tower.cc:1: state \"s\" is never fed\n"
        "  requires   one Graph::feed(state, next) for each state\n"
        "  way out    use Graph::parameter or an input for what no step changes");
  CHECK(mistake_of([&](Graph& g) {
          const Value s = g.state("s", scalar, {}, at(1));
          g.feed(s, scale(s, 2), at(2));
          g.feed(s, scale(s, 3, at(3)), at(3));
        }) == fmt::format("tower.cc:3: feed cannot take the value back\n"
                          "  operand 0  f32[]  \"s\"        tower.cc:1\n"
                          "  operand 1  f32[]  \"scale_1\"  tower.cc:3\n"
                          "  requires   one feed for each state, but it was fed at tower.cc:2"));
  CHECK(mistake_of([&](Graph& g) {
          const Value s = g.state("s", scalar, {}, at(1));
          g.feed(s, vector(g, "x", 2), at(3));
        }) ==
        "tower.cc:3: feed cannot take the value back\n"
        "  operand 0  f32[]   \"s\"  tower.cc:1\n"
        "  operand 1  f32[4]  \"x\"  tower.cc:2\n"
        "  requires   the state's type f32[], but f32[4]");
  CHECK(mistake_of([&](Graph& g) { g.feed(vector(g), vector(g, "y", 2), at(3)); }) ==
        "tower.cc:3: feed cannot take the value back\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  operand 1  f32[4]  \"y\"  tower.cc:2\n"
        "  requires   a state of this graph as the first operand\n"
        "  way out    make it with Graph::state");
}

TEST_CASE("a state may not be named as that of another graph is") {
  CHECK(mistake_of([](Graph& g) { g.state("h[2]", Type{f32, {}}, {}, at(3)); }) ==
        "tower.cc:3: state \"h[2]\" cannot be made\n"
        "  requires   a name that does not end with ']', as that of another graph's state of "
        "another shape does: \"h[1, 64]\"");
}

TEST_CASE("unroll") {
  const Type scalar{f32, {}};
  const auto step = [](Value h, int) { return Unrolled{scale(h, 2, at(3)), h}; };
  CHECK(mistake_of([&](Graph& g) { g.unroll(0, g.state("s", scalar, {}, at(1)), step, at(2)); }) ==
        "tower.cc:2: unroll cannot run 0 steps\n"
        "  operand 0  f32[]  \"s\"  tower.cc:1\n"
        "  requires   1 step or more, but 0");
  CHECK(mistake_of([&](Graph& g) { g.unroll(2, vector(g), step, at(2)); }) ==
        "tower.cc:2: unroll cannot begin at the value\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   a state of this graph as the first operand\n"
        "  way out    make it with Graph::state");
  CHECK(mistake_of([&](Graph& g) { g.unroll(2, Value(), step, at(2)); }) ==
        "tower.cc:2: unroll cannot begin at the value\n"
        "  operand 0  absent\n"
        "  requires   a state of this graph as the first operand\n"
        "  way out    make it with Graph::state");
  CHECK(mistake_of([&](Graph& g) {
          const Value s = g.state("s", scalar, {}, at(1));
          g.unroll(2, s, step, at(2));
          g.unroll(2, s, step, at(4));
        }) ==
        "tower.cc:4: unroll cannot begin at the value\n"
        "  operand 0  f32[]  \"s\"  tower.cc:1\n"
        "  requires   one feed for each state, but it was fed at tower.cc:2");
  CHECK(mistake_of([&](Graph& g) {
          const auto shorter = [](Value h, int) { return Unrolled{head(h, 0, 2, at(3)), h}; };
          g.unroll(2, g.state("s", floats(4), {}, at(1)), shorter, at(2));
        }) ==
        "tower.cc:2: unroll cannot carry its body's state on\n"
        "  operand 0  f32[4]  \"s\"              tower.cc:1\n"
        "  operand 1  f32[2]  \"unroll/0/head\"  tower.cc:3\n"
        "  requires   a body that keeps the state's type, but f32[4] becomes f32[2]");
  CHECK(mistake_of([&](Graph& g) {
          const auto silent = [&](Value h, int k) { return Unrolled{h, k == 0 ? h : Value()}; };
          const Values ys = g.unroll(2, g.state("s", scalar, {}, at(1)), silent, at(2));
          CHECK(ys.size() == 2);
          for (const Value& y : ys) CHECK(y.poisoned());
        }) ==
        "tower.cc:2: unroll cannot take what its body gives\n"
        "  operand 0  f32[]  \"s\"  tower.cc:1\n"
        "  operand 1  f32[]  \"s\"  tower.cc:1\n"
        "  operand 2  absent\n"
        "  requires   a next state and an output, of this graph, at each step, but step 1 misses "
        "one\n"
        "  way out    where the state is all there is, give it twice: {next, next}");
  CHECK(mistake_of([&](Graph& g) {
          const Values ys = g.unroll(
              std::int64_t{1} << 62, g.state("s", scalar, {}, at(1)),
              [](Value h, int) { return Unrolled{h, h}; }, at(2));
          CHECK(ys.size() == 1'000'000);
        }) ==
        "tower.cc:2: unroll cannot run 4611686018427387904 steps\n"
        "  operand 0  f32[]  \"s\"  tower.cc:1\n"
        "  requires   1000000 steps or fewer, but 4611686018427387904");
  CHECK(
      mistake_of([&](Graph& g) { g.unroll(2, g.state("s", scalar, {}, at(1)), nullptr, at(2)); }) ==
      "tower.cc:2: unroll cannot call its body\n"
      "  operand 0  f32[]  \"s\"  tower.cc:1\n"
      "  requires   a body that can be called, but it is a null pointer or an empty "
      "std::function");
  CHECK(mistake_of([&](Graph& g) {
          g.unroll(
              2, g.state("s", scalar, {}, at(1)),
              [&](Value h, int) { return Unrolled{plus(h, vector(g), at(3)), h}; }, at(2));
        }) ==
        "tower.cc:3: plus cannot join the graph as \"unroll/0/plus\"\n"
        "  operand 0  f32[]   \"s\"  tower.cc:1\n"
        "  operand 1  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   equal types, but f32[] and f32[4]");
}

}  // namespace
}  // namespace metronome::testing::feedback_test
