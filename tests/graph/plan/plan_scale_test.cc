// Plans of very many nodes: what planning takes grows little faster than the nodes do, whatever
// shape the graph has.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/check/check_plan.h"
#include "graph/passes/materialize.h"
#include "graph/plan/planner.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::plan_scale_test {
namespace {

Type rows_of(int i) { return floats(16 * (1 + i * 7 % 13)); }

// h1 = f(x, w1), h2 = f(h1, w2), ...; then back, each step reading its h, with an update in place
ir::Graph training(int nodes) {
  Graph g("training");
  const int steps = nodes / 4;
  Values kept{g.input("x", f32, {16})};
  std::vector<std::pair<Value, Value>> assigned;
  std::vector<Value> weights, moments;
  for (int i = 0; i < steps; ++i) {
    weights.push_back(g.parameter(fmt::format("w{}", i), rows_of(i), {}));
    moments.push_back(g.parameter(fmt::format("m{}", i), rows_of(i), {}));
    kept.push_back(node(g, fmt::format("h{}", i), Blend{rows_of(i)}, {kept.back(), weights[i]}));
  }
  Value back = node(g, "loss", Blend{floats(1)}, {kept.back()});
  for (int i = steps - 1; i >= 0; --i) {
    const Value gradient = node(g, fmt::format("d{}", i), Blend{rows_of(i)}, {back, kept[i]});
    back = node(g, fmt::format("g{}", i), Blend{rows_of(i)}, {back, kept[i + 1]});
    const Value next =
        node(g, fmt::format("u{}", i), Momentum{}, {weights[i], gradient, moments[i]});
    assigned.emplace_back(weights[i], next);
    assigned.emplace_back(moments[i], output(g, next, 1));
  }
  assign_all(g, assigned);
  return passes::materialize(g, {});
}

// As many branches as each is long, all from x, stacked in fours, and the stacks read by one node.
ir::Graph wide(int nodes) {
  Graph g("wide");
  const Value x = g.input("x", f32, {16});
  int length = 1;
  while (length * length < nodes) ++length;
  Values ends, stacks;
  for (int b = 0; b < length; ++b) {
    Value h = x;
    for (int i = 0; i < length; ++i) {
      h = node(g, fmt::format("b{}/{}", b, i), Blend{rows_of(b + i)}, {h});
    }
    ends.push_back(h);
    if (ends.size() == 4) {
      stacks.push_back(node(g, fmt::format("stack{}", b), Stack{}, std::exchange(ends, {})));
    }
  }
  g.output("y", node(g, "y", Blend{floats(16)}, stacks));
  return passes::materialize(g, {});
}

// Each node reads three of the last 64.
ir::Graph tangled(int nodes) {
  std::mt19937 random(1);
  Graph g("tangled");
  Values all{g.input("x", f32, {16})};
  for (int i = 0; i < nodes; ++i) {
    std::vector<Value> reads;
    for (int k = 0; k < 3; ++k) {
      reads.push_back(all[all.size() - 1 - random() % std::min<std::size_t>(all.size(), 64)]);
    }
    all.push_back(node(g, fmt::format("n{}", i), Blend{rows_of(i)}, reads));
  }
  g.output("y", node(g, "y", Blend{floats(16)}, {all.back()}));
  return passes::materialize(g, {});
}

// Each node reads x and the one before, and one node reads all.
ir::Graph kept_to_the_end(int nodes) {
  Graph g("kept");
  const Value x = node(g, "first", Blend{floats(16)}, {g.input("x", f32, {16})});
  Values all{x};
  for (int i = 0; i < nodes; ++i) {
    all.push_back(node(g, fmt::format("n{}", i), Blend{rows_of(i)}, {all.back(), x}));
  }
  g.output("y", node(g, "y", Blend{floats(16)}, all));
  return passes::materialize(g, {});
}

// One node reads all of a chain. Others are made before it and read behind it, so that its moment
// is the fullest, and none of its operands can be moved.
ir::Graph fat(int nodes) {
  Graph g("fat");
  Value h = node(g, "first", Blend{floats(16)}, {g.input("x", f32, {16})});
  Values all, aside;
  for (int i = 0; i < 30; ++i) {
    aside.push_back(node(g, fmt::format("aside{}", i), Blend{rows_of(i)}, {h}));
  }
  for (int i = 0; i < nodes; ++i) {
    all.push_back(h = node(g, fmt::format("n{}", i), Blend{rows_of(i)}, {h}));
  }
  Value y = node(g, "fat", Blend{floats(16)}, all);
  for (int i = 0; i < 30; ++i) {
    y = node(g, fmt::format("y{}", i), Blend{floats(16)}, {y, aside[i]});
  }
  g.output("y", y);
  return passes::materialize(g, {});
}

// A loop that goes on while the data say so: each iteration runs under a guard that implies the one
// before, and its results are merged with what was there.
ir::Graph until(int nodes) {
  Graph g("until");
  Value h = node(g, "h", Blend{rows_of(0)}, {g.input("x", f32, {16})});
  Value go;
  for (int i = 0; i < nodes / 5; ++i) {
    const Value more = node_under(g, go, fmt::format("more{}", i), Blend{Type{bool_, {}}}, {h});
    go = guard(g, fmt::format("go{}", i), more, 1, 2, go);
    const Value a = node_under(g, go, fmt::format("a{}", i), Blend{rows_of(i)}, {h});
    const Value b = node_under(g, go, fmt::format("b{}", i), Blend{rows_of(0)}, {a});
    h = node(g, fmt::format("h{}", i), Merge{1, true}, {go, b, h});
  }
  g.output("y", node(g, "y", Blend{floats(16)}, {h}));
  return passes::materialize(g, {});
}

// A choice of four branches, again and again: only one of each runs.
ir::Graph routed(int nodes) {
  Graph g("routed");
  Value h = node(g, "h", Blend{rows_of(0)}, {g.input("x", f32, {16})});
  for (int i = 0; i < nodes / 14; ++i) {
    const Value which = node(g, fmt::format("which{}", i), Blend{Type{i32, {}}}, {h});
    std::vector<Value> operands;
    for (int c = 0; c < 4; ++c) {
      const Value go = guard(g, fmt::format("go{}/{}", i, c), which, c, 4);
      const Value a = node_under(g, go, fmt::format("a{}/{}", i, c), Blend{rows_of(i + c)}, {h});
      const Value b = node_under(g, go, fmt::format("b{}/{}", i, c), Blend{rows_of(0)}, {a});
      if (c < 3) operands.push_back(go);
      operands.push_back(b);
    }
    h = node(g, fmt::format("h{}", i), Merge{3, true}, operands);
  }
  g.output("y", node(g, "y", Blend{floats(16)}, {h}));
  return passes::materialize(g, {});
}

struct LargeShape {
  const char* name;
  ir::Graph (*make)(int nodes);
};
constexpr LargeShape kShapes[] = {
    {"training", training}, {"wide", wide},
    {"tangled", tangled},   {"kept to the end", kept_to_the_end},
    {"fat", fat},           {"until", until},
    {"routed", routed},
};

/// Twice what is aimed at on two busy cores; the sanitizers take some eight times as long.
#ifdef __SANITIZE_ADDRESS__
constexpr double kMostSeconds = 40;
#else
constexpr double kMostSeconds = 10;
#endif

/// The processor time of this process: other ones take none of it.
double processor_seconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

TEST_CASE("50,000 nodes are planned in seconds, and twice as many take little more than twice") {
  for (const LargeShape& shape : kShapes) {
    for (const bool skips : {true, false}) {
      CAPTURE(shape.name);
      CAPTURE(skips);
      Settings settings;
      settings.skips = skips;
      std::vector<double> planning, checking;
      std::string series;
      for (const int nodes : {graphs(6'250), graphs(12'500), graphs(25'000), graphs(50'000)}) {
        const ir::Graph graph = shape.make(nodes);
        const double begin = processor_seconds();
        const auto [schedule, memory] = plan::plan_step(graph, {}, settings);
        const double planned = processor_seconds();
        REQUIRE(check::check_plan(graph, schedule, {}, memory, settings).value_or("") == "");
        planning.push_back(planned - begin);
        checking.push_back(processor_seconds() - planned);
        series += fmt::format(
            "\n  {:6} nodes  plan {:.2f} s  check {:.2f} s  arena / bound {:.3f}",
            graph.nodes().size(), planning.back(), checking.back(),
            static_cast<double>(memory.arena_bytes) / static_cast<double>(memory.lower_bound));
      }
      MESSAGE(fmt::format("{}{}{}", shape.name, skips ? ", where nodes are skipped" : "", series));
      for (const std::vector<double>& seconds : {planning, checking}) {
        // Searches of fixed length begin somewhere between, and take a second or so.
        for (const double each : seconds) CHECK(each < kMostSeconds);
        CHECK(seconds[3] < 6 * seconds[1] + kMostSeconds / 4);
        CHECK(seconds[1] < 2.5 * seconds[0] + kMostSeconds / 4);
      }
    }
  }
}

}  // namespace
}  // namespace metronome::testing::plan_scale_test
