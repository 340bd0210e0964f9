// Values know their graph by an identity that no other graph gets, wherever it lies in memory.
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/ir/error.h"
#include "tests/error_of.h"
#include "tests/graph/mistake_of.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::identity_test {
namespace {

using tests::error_of;

const std::string kDestroyed =
    "a value of graph \"old\" is used, but that graph was destroyed\n"
    "  requires   a graph that lives as long as it is declared\n"
    "  way out    keep the Graph beside its values; without it they serve executables alone, to "
    "feed "
    "and to read";

TEST_CASE("verbs on a value whose graph was destroyed throw, with the caller's line") {
  auto old = std::make_unique<Graph>("old");
  const Value x = old->input("x", f32, {4}, at(1));
  const ValueId id = x.id();
  old.reset();
  CHECK(x.present());
  CHECK(x.id() == id);
  const std::string here = "tower.cc:7: " + kDestroyed;
  CHECK(error_of<GraphError>([&] { plus(x, x, at(7)); }) == here);
  CHECK(error_of<GraphError>([&] { x.through(same, at(7)); }) == here);
  CHECK(error_of<GraphError>([&] { x.repeat(2, same, at(7)); }) == here);
  CHECK(error_of<GraphError>([&] { x.split(same, same, at(7)); }) == here);
  CHECK(error_of<GraphError>([&] { x.loop(same).times(2, at(7)); }) == here);
  CHECK(error_of<GraphError>([&] { x.loop(same).until(same, 2, at(7)); }) == here);
  CHECK(error_of<GraphError>([&] { x.choose(same, {same, same}, at(7)); }) == here);
  CHECK(error_of<GraphError>([&] { x.named("n", at(7)); }) == here);
  CHECK(error_of<GraphError>([&] { x.scope("s", same, at(7)); }) == here);
  CHECK(error_of<GraphError>([&] { stop_gradient(x, at(7)); }) == here);
  CHECK(error_of<GraphError>(
            [&] { Branches({x, x}).merge([](const Values& v) { return v[0]; }, at(7)); }) == here);
  // These calls take no line.
  CHECK(error_of<GraphError>([&] { x.type(); }) == kDestroyed);
  CHECK(error_of<GraphError>([&] { x.node(); }) == kDestroyed);
}

TEST_CASE("graphs made later, at whatever address, are told from one that was destroyed") {
  std::vector<Value> values;
  for (int i = 0; i < 100; ++i) {
    Graph g("old");
    values.push_back(g.input("x", f32, {4}, at(1)));
  }
  Graph now("now");
  const Value x = now.input("x", f32, {4}, at(1));
  for (const Value& v : values) {
    CHECK(v.identity() != x.identity());
    CHECK(error_of<GraphError>([&] { v.type(); }) == kDestroyed);
    CHECK(error_of<GraphError>([&] { now.output("y", v, at(7)); }) == "tower.cc:7: " + kDestroyed);
    CHECK(error_of<GraphError>([&] { now.minimize(v, Descent{}, at(7)); }) ==
          "tower.cc:7: " + kDestroyed);
    CHECK(error_of<GraphError>([&] { now.gradient(v, at(7)); }) == "tower.cc:7: " + kDestroyed);
  }
}

TEST_CASE("values stay with a graph that is moved, and the one moved from refuses all calls") {
  Graph from("g");
  const Value x = from.input("x", f32, {4}, at(1));
  Graph to(std::move(from));
  CHECK(x.type() == Type{f32, {4}});
  CHECK(x.identity() == to.identity());
  to.output("y", plus(x, x, at(2)), at(3));
  to.validate();

  const std::string moved =
      "a graph is used that was moved from\n"
      "  way out    use the graph that it was moved to";
  const std::string here = "tower.cc:9: " + moved;
  CHECK(error_of<GraphError>([&] { from.input("z", f32, {4}, at(9)); }) == here);
  CHECK(error_of<GraphError>([&] { from.parameter("w", {f32, {4}}, {}, at(9)); }) == here);
  CHECK(error_of<GraphError>([&] { from.state("h", {f32, {4}}, {}, at(9)); }) == here);
  CHECK(error_of<GraphError>([&] { from.feed(x, x, at(9)); }) == here);
  CHECK(error_of<GraphError>([&] {
          from.unroll(2, x, [](Value v, int) { return Unrolled{v, v}; }, at(9));
        }) == here);
  CHECK(error_of<GraphError>([&] { from.buffer("b", {f32, {4}}, {}, at(9)); }) == here);
  CHECK(error_of<GraphError>([&] { from.assign({{}, x}, x, at(9)); }) == here);
  CHECK(error_of<GraphError>([&] { from.constant(1, f32, at(9)); }) == here);
  CHECK(error_of<GraphError>([&] { from.constant({1, 2}, {f32, {2}}, at(9)); }) == here);
  CHECK(error_of<GraphError>([&] { from.output("o", x, at(9)); }) == here);
  CHECK(error_of<GraphError>([&] { from.minimize(x, Descent{}, at(9)); }) == here);
  CHECK(error_of<GraphError>([&] { from.gradient(x, at(9)); }) == here);
  CHECK(error_of<GraphError>([&] { from.freeze("w", at(9)); }) == here);
  CHECK(error_of<GraphError>([&] { from.thaw("w", at(9)); }) == here);
  CHECK(error_of<GraphError>([&] { from.scale_learning_rate("w", 2, at(9)); }) == here);
  CHECK(error_of<GraphError>([&] { from.scale_learning_rate("w", -2, at(9)); }) == here);
  CHECK(error_of<GraphError>([&] { from.scale_weight_decay("w", 2, at(9)); }) == here);
  CHECK(error_of<GraphError>([&] { from.scale_weight_decay("w", -2, at(9)); }) == here);
  CHECK(error_of<GraphError>([&] { from.seed(); }) == moved);
  CHECK(error_of<GraphError>([&] { from.replay(); }) == moved);
  CHECK(error_of<GraphError>([&] { from.update(); }) == moved);
  CHECK(error_of<GraphError>([&] { from.validate(); }) == moved);
  CHECK(error_of<GraphError>([&] { from.print(); }) == moved);
  CHECK(error_of<GraphError>([&] { from.dot(); }) == moved);
  CHECK(error_of<GraphError>([&] { from.name(); }) == moved);
  CHECK(error_of<GraphError>([&] { from.loss(); }) == moved);

  // It may be given a graph again.
  from = Graph("again");
  from.output("z", from.input("z", f32, {}, at(1)), at(2));
  from.validate();
}

TEST_CASE("a graph that is assigned to another destroys that one") {
  Graph g("old");
  const Value x = g.input("x", f32, {4}, at(1));
  g = Graph("new");
  CHECK(error_of<GraphError>([&] { x.through([](Value v) { return v; }, at(7)); }) ==
        "tower.cc:7: " + kDestroyed);
}

TEST_CASE("a shared layer remembers a graph that was destroyed as another one") {
  const Layer layer = shared([](Value h) {
    return plus(h, make_parameter(h.emitter(), "w", h.type(), {}, at(2)), at(2));
  });
  {
    Graph g("old");
    layer(g.input("x", f32, {4}, at(1)), at(3));
  }
  CHECK(mistake_of([&](Graph& g) { layer(g.input("x", f32, {4}, at(1)), at(5)); }) ==
        "tower.cc:5: a shared layer cannot serve two graphs\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   the graph of its first call, \"old\", but \"g\"");
}

TEST_CASE("a buffer takes no value of another graph, and no absent one") {
  Graph other("other");
  const Value foreign = other.input("z", f32, {4}, at(1));
  CHECK(mistake_of(
            [&](Graph& g) { g.assign(g.buffer("b", {f32, {4}}, {}, at(1)), foreign, at(2)); }) ==
        "tower.cc:2: assign cannot take the value\n"
        "  operand 0  f32[4]  \"b\"  tower.cc:1\n"
        "  operand 1  f32[4]  \"z\"  tower.cc:1\n"
        "  requires   a buffer and a value of this graph");
  CHECK(mistake_of(
            [&](Graph& g) { g.assign(g.buffer("b", {f32, {}}, {}, at(1)), Value(), at(2)); }) ==
        "tower.cc:2: assign cannot take the value\n"
        "  operand 0  f32[]  \"b\"  tower.cc:1\n"
        "  operand 1  absent\n"
        "  requires   a buffer and a value of this graph");
}

}  // namespace
}  // namespace metronome::testing::identity_test
