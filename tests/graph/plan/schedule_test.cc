#include "graph/plan/schedule.h"
#include "graph/plan/planner.h"
#include "graph/plan/schedules.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "graph/emit/emitter.h"
#include "graph/ir/error.h"
#include "graph/plan/memory_plan.h"
#include "graph/plan/orders.h"
#include "graph/plan/uses.h"
#include "tests/graph/check_bound.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::schedule_test {
namespace {

/// "x a b", paths in order; assignments made in place after a bar.
std::string drawn(const ir::Graph& graph, const plan::Schedule& schedule) {
  std::vector<std::string> words;
  for (std::int32_t index : schedule.order) words.push_back(graph.nodes()[index].path);
  std::string text = fmt::format("{}", fmt::join(words, " "));
  for (std::size_t i = 0; i < schedule.in_place.size(); ++i) {
    if (!schedule.in_place[i]) continue;
    text += " | " + graph.storage(graph.assignments()[i].storage).path;
  }
  return text;
}

std::string order_of(const ir::Graph& graph) { return drawn(graph, plan::schedule(graph, {})); }

TEST_CASE("the declared order stands where no other takes fewer bytes") {
  // x - a - b - y
  Graph g("chain");
  const Value x = g.input("x", f32, {16});
  const Value a = node(g, "a", Scale{2}, {x});
  const Value b = node(g, "b", Scale{3}, {a});
  g.output("y", node(g, "y", Scale{4}, {b}));
  CHECK(order_of(g) == "x a b y");
  CHECK(plan::schedule(g, {}).peak_bytes == 64);
}

/// x, on its way while others run.
struct Post {
  static constexpr std::string_view name = "post";
  static constexpr bool differentiable = false;
  static constexpr bool effects = true;
  static constexpr bool prompt = true;
  bool operator==(const Post&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
};

TEST_CASE("what goes on beside the step begins as soon as its operands are there, packed first") {
  // x - a - b - c - d - y,   pack(a, b) - post - z,   pack(c, d) - post1 - z1
  Graph g("posts");
  const Value x = g.input("x", f32, {16});
  const Value a = node(g, "a", Scale{2}, {x});
  const Value b = node(g, "b", Scale{3}, {a});
  const Value c = node(g, "c", Scale{4}, {b});
  const Value d = node(g, "d", Scale{5}, {c});
  g.output("y", node(g, "y", Scale{6}, {d}));
  const Value posted = node(g, "post", Post{}, {node(g, "pack", Pack{}, {a, b})});
  const Value posted1 = node(g, "post1", Post{}, {node(g, "pack1", Pack{}, {c, d})});
  g.output("z", node(g, "z", Scale{7}, {posted}));
  g.output("z1", node(g, "z1", Scale{8}, {posted1}));
  for (const plan::Schedule& schedule : plan::schedules(g.data(), {})) {
    const std::string order = drawn(g.data(), schedule);
    CHECK_MESSAGE(order.find("b pack post c") != std::string::npos, order);
    CHECK_MESSAGE(order.find("d pack1 post1") != std::string::npos, order);
  }
}

TEST_CASE("nodes with effects run as declared, though another order takes fewer bytes") {
  // x - big0 - send0 - small0 - y        sent: both, then made small
  //   - big1 - send1 - small1 -/
  const auto declared = [](auto send) {
    Graph g("sends");
    const Value x = g.input("x", f32, {16});
    std::vector<Value> sent;
    for (const char* name : {"send0", "send1", "send2"}) {
      sent.push_back(node(g, name, send, {node(g, std::string("big") + name[4], Scale{2}, {x})}));
    }
    Value sum;
    for (const Value& v : sent) {
      const Value small = node(g, std::string("small") + v.node().path[4], Scale{3}, {v});
      sum = sum.present() ? node(g, "sum" + small.node().path.get().substr(5), Plus{}, {sum, small})
                          : small;
    }
    g.output("y", sum);
    const std::string order = order_of(g);
    return order.find("send0") < order.find("send1") && order.find("send1") < order.find("send2");
  };
  CHECK(declared(Send{}));
}

TEST_CASE("each large value is reduced before the next one is made") {
  // x - big0 - small0 - sum0 - y        declared: all big ones first
  //   - big1 - small1 -/       /
  //   - big2 - small2 --------/
  Graph g("fan");
  const Value x = g.input("x", f32, {16});
  std::vector<Value> big, small;
  for (int i = 0; i < 3; ++i)
    big.push_back(node(g, fmt::format("big{}", i), Blend{floats(1600)}, {x}));
  for (int i = 0; i < 3; ++i) {
    small.push_back(node(g, fmt::format("small{}", i), Blend{floats(16)}, {big[i]}));
  }
  const Value sum = node(g, "sum", Plus{}, {small[0], small[1]});
  g.output("y", node(g, "y", Plus{}, {sum, small[2]}));
  const plan::Schedule s = plan::schedule(g, {});
  CHECK(drawn(g, s) == "x big0 small0 big1 small1 sum big2 small2 y");
  CHECK(s.peak_bytes == 6400 + 2 * 64);
}

TEST_CASE("a source that is needed late is made late") {
  // x - big - small -+- y
  //        zeros ---/
  Graph g("late");
  const Value x = g.input("x", f32, {16});
  const Value zeros = node(g, "zeros", Blend{floats(800)}, {});
  const Value big = node(g, "big", Blend{floats(1600)}, {x});
  const Value small = node(g, "small", Blend{floats(16)}, {big});
  g.output("y", node(g, "y", Blend{floats(16)}, {small, zeros}));
  CHECK(order_of(g) == "x big small zeros y");
}

TEST_CASE("a gradient is used up by its update before the next one is made") {
  // d - g0 -(w0)- u0
  //   - g1 -(w1)- u1       declared: all gradients, then all updates
  Graph g("updates");
  const Value d = g.input("d", f32, {16});
  std::vector<Value> weights, gradients;
  std::vector<std::pair<Value, Value>> assigned;
  for (int i = 0; i < 3; ++i)
    weights.push_back(g.parameter(fmt::format("w{}", i), floats(256), {}));
  for (int i = 0; i < 3; ++i) {
    gradients.push_back(node(g, fmt::format("g{}", i), Blend{floats(256)}, {d}));
  }
  for (int i = 0; i < 3; ++i) {
    assigned.push_back(
        {weights[i], node(g, fmt::format("u{}", i), Plus{}, {weights[i], gradients[i]})});
  }
  assign_all(g, assigned);
  const plan::Schedule s = plan::schedule(g, {});
  CHECK(drawn(g, s) == "d w0 w1 w2 g0 u0 g1 u1 g2 u2 | w0 | w1 | w2");
  CHECK(s.peak_bytes == 1024);
}

TEST_CASE("a storage is updated in place after every other read of its old value") {
  // w - next        declared before the reads of w and of a view of it
  //   - y
  //   - head - z
  Graph g("reads");
  const Value w = g.parameter("w", floats(16), {});
  const Value next = node(g, "next", Scale{2}, {w});
  const Value y = node(g, "y", Scale{3}, {w});
  const Value view = node(g, "view", Head{4, 4}, {w});
  const Value z = node(g, "z", Scale{4}, {view});
  g.output("y", y);
  g.output("z", z);
  assign_all(g, {{w, next}});
  CHECK(order_of(g) == "w view y z next | w");
}

TEST_CASE("an update whose result an old value's reader needs is not in place") {
  // w - next - y = next + w
  Graph g("needed");
  const Value w = g.parameter("w", floats(16), {});
  const Value next = node(g, "next", Scale{2}, {w});
  g.output("y", node(g, "y", Plus{}, {next, w}));
  assign_all(g, {{w, next}});
  CHECK(order_of(g) == "w next y");
}

TEST_CASE("of two updates that must each come first, the first assignment is in place") {
  // a - next_a = a + b      next_a in place: next_b, which reads a, before it;
  // b - next_b = b + a      next_b in place: next_a, which reads b, before it
  Graph g("cycle");
  const Value a = g.parameter("a", floats(16), {});
  const Value b = g.parameter("b", floats(16), {});
  const Value next_a = node(g, "next_a", Plus{}, {a, b});
  const Value next_b = node(g, "next_b", Plus{}, {b, a});
  assign_all(g, {{a, next_a}, {b, next_b}});
  CHECK(order_of(g) == "a b next_b next_a | a");
  assign_all(g, {{b, next_b}, {a, next_a}});
  CHECK(order_of(g) == "a b next_a next_b | b");
}

TEST_CASE("a node of several outputs updates several storages in place") {
  Graph g("momentum");
  const Value w = g.parameter("w", floats(16), {});
  const Value m = g.parameter("m", floats(16), {});
  const Value d = g.input("d", f32, {16});
  const Value next = node(g, "next", Momentum{}, {w, d, m});
  assign_all(g, {{w, next}, {m, output(g, next, 1)}});
  CHECK(order_of(g) == "w m d next | w | m");
  CHECK(plan::schedule(g, {}).peak_bytes == 0);
}

TEST_CASE("not in place: another op, a view of the storage, another storage, a readable value") {
  const auto in_place = [](const ir::Graph& g) {
    return plan::schedule(g, {}).in_place == std::vector{true};
  };
  Graph g("not");
  const Value w = g.parameter("w", floats(16), {});
  const Value v = g.parameter("v", floats(16), {});
  const Value scaled = node(g, "scaled", Scale{2}, {w});
  const Value blended = node(g, "blended", Blend{floats(16)}, {w});
  const Value viewed = node(g, "viewed", Head{0, 16}, {v});
  const Value through_view = node(g, "through_view", Scale{2}, {viewed});
  const Value shown = node(g, "shown", Scale{2}, {w});
  g.output("shown", shown);
  assign_all(g, {{w, scaled}});
  CHECK(in_place(g));
  assign_all(g, {{w, blended}});
  CHECK_FALSE(in_place(g));
  assign_all(g, {{v, through_view}});
  CHECK_FALSE(in_place(g));
  assign_all(g, {{v, scaled}});
  CHECK_FALSE(in_place(g));
  assign_all(g, {{w, shown}});
  CHECK_FALSE(in_place(g));
}

TEST_CASE("every operand that is the storage needs the right to be overwritten") {
  Graph g("twice");
  const Value w = g.parameter("w", floats(16), {});
  const Value whole = node(g, "whole", Head{0, 16}, {w});
  const Value part = node(g, "part", Head{8, 8}, {w});
  const auto in_place = [&](Value next) {
    assign_all(g, {{w, next}});
    return plan::schedule(g, {}).in_place == std::vector{true};
  };
  CHECK(in_place(node(g, "w + w", Plus{}, {w, w})));
  CHECK(in_place(node(g, "w + whole", Plus{}, {w, whole})));
  CHECK_FALSE(in_place(node(g, "w and itself as gradient", Momentum{}, {w, w, part})));
}

TEST_CASE("one value assigned to two storages is made in one and copied to the other") {
  Graph g("two");
  const Value w = g.parameter("w", floats(16), {});
  const Value v = g.parameter("v", floats(16), {});
  const Value next = node(g, "next", Plus{}, {w, v});
  assign_all(g, {{w, next}, {v, next}});
  CHECK(order_of(g) == "w v next | w");
}

TEST_CASE("a guard is read by the node that it guards") {
  Graph g("guard");
  const Value x = g.input("x", f32, {16});
  const Value go = node(g, "go", Blend{Type{bool_, {}}}, {x});
  Node guarded{make_op(Scale{2}), {x.id()}, {}, "y", Line{}, go.id()};
  g.output("all", or_zero(g, "all", go, g.value(g.emitter().graph.append(guarded))));
  CHECK(order_of(g) == "x go y all");
  CHECK(plan::schedule(g, {}).peak_bytes == 128);  // go and y; what can be read lies elsewhere
}

TEST_CASE("a view under a guard comes with what it views, not with the guard") {
  Graph g("view");
  const Value x = g.input("x", f32, {16});
  const Value h = node(g, "h", Blend{floats(16)}, {x});
  const Value which = node(g, "which", Blend{Type{i32, {}}}, {x});
  const Value first = node(g, "first", Guard{0, 2}, {which});
  const Value second = node(g, "second", Guard{1, 2}, {which});
  const Value view = g.value(g.emitter().graph.append(
      Node{make_op(Head{0, 16}), {h.id()}, {}, "view", Line{}, second.id()}));
  // The first guard alone tells which of the two holds, so the second may come last.
  g.output("y", node(g, "y", Merge{1, true}, {first, x, view}));
  const auto at = [](Value v) { return v.id().node; };
  const plan::Uses uses = plan::uses_of(g, 64);
  const std::vector<std::int32_t> running = {at(h), at(which), at(first), at(view) + 1, at(second)};
  plan::Schedule late{plan::with_still_nodes(g, uses, running), {}, 0};
  CHECK(drawn(g, late) == "x h view which first y second");
  CHECK(testing::check_plan(g, late, {}, plan::plan_memory(g, late, {}, {}), {}) == std::nullopt);
}

TEST_CASE("an empty graph has an empty schedule") {
  CHECK(plan::schedule(Graph("empty"), {}) == plan::Schedule{});
}

TEST_CASE("a readable or assigned value that is memory already is refused") {
  const std::string ours = "Metronome made a mistake of its own, please report it: ";
  Graph g("memory");
  const Value x = g.input("x", f32, {16});
  const Value w = g.parameter("w", floats(16), {});
  assign_all(g, {{w, node(g, "view", Head{0, 16}, {x})}});
  CHECK_THROWS_WITH_AS(plan::schedule(g, {}),
                       (ours + "the assignment of \"w\" has no copy of input \"x\"").c_str(),
                       InternalError);
  g.emitter().graph.set_assignments({});
  g.output("y", w);
  CHECK_THROWS_WITH_AS(plan::schedule(g, {}),
                       (ours + "readable \"y\" has no copy of read \"w\"").c_str(), InternalError);
}

TEST_CASE("ten thousand nodes: a tower with its reverse walk and updates") {
  Graph g("tower");
  constexpr int kLayers = 2500;
  Value h = g.input("x", f32, {1024});
  std::vector<Value> weights, activations;
  for (int i = 0; i < kLayers; ++i) {
    weights.push_back(g.parameter(fmt::format("w{}", i), floats(256), {}));
    activations.push_back(h);
    h = node(g, "h", Blend{floats(1024)}, {h, weights.back()});
  }
  std::vector<std::pair<Value, Value>> assigned;
  std::vector<Value> gradients(kLayers);
  Value d = h;
  for (int i = kLayers - 1; i >= 0; --i) {
    gradients[i] = node(g, "g", Blend{floats(256)}, {activations[i], d});
    d = node(g, "d", Blend{floats(1024)}, {d, weights[i]});
  }
  for (int i = 0; i < kLayers; ++i) {
    assigned.push_back({weights[i], node(g, "u", Plus{}, {weights[i], gradients[i]})});
  }
  assign_all(g, assigned);
  const plan::Schedule s = plan::schedule(g, {});
  CHECK(s.in_place == std::vector<bool>(kLayers, true));
  // All activations (x is an input, but the first d is one more), and one gradient beside them.
  CHECK(s.peak_bytes == kLayers * 4096 + 1024);
}

}  // namespace
}  // namespace metronome::testing::schedule_test
