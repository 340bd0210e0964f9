// `unroll`, `repeat` and `loop` over several values: paths, feeds and whole texts of mistakes.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "graph/ir/graph.h"
#include "tests/graph/mistake_of.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::several_test {
namespace {

Values states(Graph& g) {
  return {g.state("h", floats(4), {}, at(1)), g.state("c", floats(2), {}, at(2))};
}

/// x + a parameter.
const Layer weighted = [](Value x, Line line) {
  const PathScope scope(x.emitter(), "dense", PathScope::Kind::layer);
  return plus(x, make_parameter(x.emitter(), "weight", x.type(), {}, line), line);
};

/// Doubles each state; the output is the first one's.
UnrolledStates doubled(const Values& s, int) {
  const Values next{scale(s[0], 2, at(5)), scale(s[1], 2, at(5))};
  return {next, next[0]};
}

TEST_CASE("unroll carries several states, each fed by what the last step left") {
  Graph g("g");
  const Values s = states(g);
  const Values ys = g.unroll(3, {s[0], s[1]}, doubled);
  CHECK(ys.size() == 3);
  CHECK(ys[2].node().path == "unroll/2/scale");
  REQUIRE(g.data().assignments().size() == 2);
  for (const auto& [index, path] :
       {std::pair(0, "unroll/2/scale"), std::pair(1, "unroll/2/scale_1")}) {
    CHECK(g.data().node(g.data().assignments()[index].value).path == path);
  }
  CHECK_NOTHROW(g.validate());
}

TEST_CASE("unroll of several states with mistakes") {
  CHECK(mistake_of([](Graph& g) { g.unroll(2, Values{}, doubled, at(3)); }) ==
        "tower.cc:3: unroll cannot begin\n"
        "  requires   1 state or more, but none");
  CHECK(mistake_of([](Graph& g) {
          const Value h = g.state("h", floats(4), {}, at(1));
          CHECK(g.unroll(2, {h, h}, doubled, at(3))[1].poisoned());
        }) ==
        "tower.cc:3: unroll cannot begin\n"
        "  operand 0  f32[4]  \"h\"  tower.cc:1\n"
        "  operand 1  f32[4]  \"h\"  tower.cc:1\n"
        "  requires   each state once, but states 0 and 1 are one");
  CHECK(mistake_of([](Graph& g) {
          g.unroll(2, {g.state("h", floats(4), {}, at(1)), vector(g, "x", 2)}, doubled, at(3));
        }) ==
        "tower.cc:3: unroll cannot begin at the value\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:2\n"
        "  requires   a state of this graph as the first operand\n"
        "  way out    make it with Graph::state");
  CHECK(mistake_of([](Graph& g) {
          const auto one = [](const Values& s, int) { return UnrolledStates{{s[0]}, s[1]}; };
          g.unroll(2, states(g), one, at(3));
        }) ==
        "tower.cc:3: unroll cannot take what its body gives\n"
        "  operand 0  f32[4]  \"h\"  tower.cc:1\n"
        "  operand 1  f32[2]  \"c\"  tower.cc:2\n"
        "  operand 2  f32[4]  \"h\"  tower.cc:1\n"
        "  operand 3  f32[2]  \"c\"  tower.cc:2\n"
        "  requires   as many next states as the 2 that the body takes, but 1");
  CHECK(mistake_of([](Graph& g) {
          const auto silent = [](const Values& s, int) { return UnrolledStates{s, Value()}; };
          g.unroll(2, states(g), silent, at(3));
        }) ==
        "tower.cc:3: unroll cannot take what its body gives\n"
        "  operand 0  f32[4]  \"h\"  tower.cc:1\n"
        "  operand 1  f32[2]  \"c\"  tower.cc:2\n"
        "  operand 2  f32[4]  \"h\"  tower.cc:1\n"
        "  operand 3  f32[2]  \"c\"  tower.cc:2\n"
        "  operand 4  absent\n"
        "  requires   next states and an output, of this graph, at each step, but step 0 misses "
        "one");
  CHECK(mistake_of([](Graph& g) {
          const auto swapped = [](const Values& s, int) {
            return UnrolledStates{{s[1], s[0]}, s[0]};
          };
          g.unroll(2, states(g), swapped, at(3));
        }) ==
        "tower.cc:3: unroll cannot carry its body's state on\n"
        "  operand 0  f32[4]  \"h\"  tower.cc:1\n"
        "  operand 1  f32[2]  \"c\"  tower.cc:2\n"
        "  requires   a body that keeps the state's type, but f32[4] becomes f32[2]");
  CHECK(mistake_of([](Graph& g) {
          const Values s = states(g);
          g.feed(s[1], s[1], at(3));
          g.unroll(2, s, doubled, at(4));
        }) ==
        "tower.cc:4: unroll cannot begin at the value\n"
        "  operand 0  f32[2]  \"c\"  tower.cc:2\n"
        "  requires   one feed for each state, but it was fed at tower.cc:3");
}

TEST_CASE("repeat hands several values from copy to copy") {
  Graph g("g");
  const Value x = vector(g);
  const Values ys = repeat({x, x}, 2, [](const Values& v, int copy) {
    return Values{v[1].through(weighted), scale(v[0], copy)};
  });
  REQUIRE(ys.size() == 2);
  CHECK(ys[0].node().path == "repeat/1/dense/plus");
  CHECK(ys[1].node().path == "repeat/1/scale");
  CHECK(g.data().find_storage("repeat/0/dense/weight").has_value());
  CHECK(g.data().find_storage("repeat/1/dense/weight").has_value());
  const Values same = repeat({x, ys[0]}, 0, [](const Values& v) { return v; });
  CHECK(same[0].id() == x.id());
  CHECK(same[1].id() == ys[0].id());
  const Values shorter =
      repeat({x, x}, 1, [](const Values& v) { return Values{head(v[0], 0, 2), v[1]}; });
  CHECK(shorter[0].type() == floats(2));
  CHECK_NOTHROW(g.validate());
}

TEST_CASE("repeat of several values with mistakes") {
  const std::string operands =
      "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
      "  operand 1  f32[4]  \"y\"  tower.cc:2\n";
  const auto repeated = [](std::int64_t n, const std::function<Values(const Values&)>& body) {
    return mistake_of([&](Graph& g) {
      const Values ys = repeat({vector(g), vector(g, "y", 2)}, n, body, at(3));
      CHECK(ys.size() == 2);
      CHECK(std::ranges::all_of(ys, &Value::poisoned));
    });
  };
  const auto same = [](const Values& v) { return v; };
  CHECK(repeated(-1, same) == "tower.cc:3: repeat cannot make -1 copies\n" + operands +
                                  "  requires   0 copies or more, but -1");
  CHECK(repeated(1'000'001, same) == "tower.cc:3: repeat cannot make 1000001 copies\n" + operands +
                                         "  requires   1000000 copies or fewer, but 1000001");
  CHECK(repeated(2, nullptr) ==
        "tower.cc:3: repeat cannot make 2 copies\n" + operands +
            "  requires   a body that can be called, but it is a null pointer or an empty "
            "std::function");
  CHECK(repeated(2, [](const Values& v) { return Values{v[0]}; }) ==
        "tower.cc:3: repeat cannot hand its body's results on\n" + operands +
            "  requires   as many results as the 2 values that the body takes, but 1");
  CHECK(repeated(2, [](const Values& v) { return Values{v[0], Value()}; }) ==
        "tower.cc:3: repeat cannot hand its body's results on\n" + operands +
            "  requires   a body that returns a value, but it returned an absent one (a "
            "default-made Value)");
  CHECK(repeated(2,
                 [](const Values& v) {
                   return Values{v[0], plus(v[0], head(v[1], 0, 2, at(5)), at(6))};
                 }) ==
        "tower.cc:6: plus cannot join the graph as \"repeat/0/plus\"\n"
        "  operand 0  f32[4]  \"x\"              tower.cc:1\n"
        "  operand 1  f32[2]  \"repeat/0/head\"  tower.cc:5\n"
        "  requires   equal types, but f32[4] and f32[2]");
  CHECK_THROWS_WITH_AS(repeat({}, 2, same, at(3)),
                       "tower.cc:3: repeat carries no value\n"
                       "  requires   one value or more",
                       GraphError);
}

TEST_CASE("a loop of several values whose body changes one type") {
  CHECK(mistake_of([](Graph& g) {
          loop({vector(g), vector(g, "y", 2)}, [](const Values& v) {
            return Values{v[0], head(v[1], 0, 2, at(4))};
          }).times(2, at(3));
        }) ==
        "tower.cc:3: loop cannot feed its body's result back\n"
        "  operand 0  f32[4]  \"y\"            tower.cc:2\n"
        "  operand 1  f32[2]  \"loop/0/head\"  tower.cc:4\n"
        "  requires   a body that keeps the type, but f32[4] becomes f32[2]");
}

}  // namespace
}  // namespace metronome::testing::several_test
