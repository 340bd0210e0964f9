// Values that gradients read are computed once more, late: the printed graph after the pass.
#include "graph/passes/training/recompute.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph/check/verify.h"
#include "graph/passes/fold.h"
#include "graph/passes/materialize.h"
#include "graph/passes/prune.h"
#include "graph/passes/share.h"
#include "graph/passes/training/differentiate.h"
#include "graph/passes/training/update.h"
#include "graph/rules/gradient.h"
#include "tests/graph/after.h"
#include "tests/graph/planned.h"

namespace metronome::testing::recompute_test {
namespace {

/// x y. Its gradient reads both.
struct Times {
  static constexpr std::string_view name = "times";
  bool operator==(const Times&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  Values vjp(const Vjp& v) const {
    return {metronome::apply(Times{}, {v.grad(), v.in(1)}, {}),
            metronome::apply(Times{}, {v.grad(), v.in(0)}, {})};
  }
};

/// x and noise of a key of its own, which is x's gradient's too; and a saved value, which the
/// gradient reads.
struct Noise {
  static constexpr std::string_view name = "noise";
  static constexpr int saved = 1;
  std::uint64_t key = 0;
  bool operator==(const Noise&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0], in[0]}; }
  Values vjp(const Vjp& v) const { return {metronome::apply(Times{}, {v.grad(), v.out(1)}, {})}; }
};

/// x where it is positive. Its gradient compares x first, by itself.
struct Gate {
  static constexpr std::string_view name = "gate";
  bool operator==(const Gate&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  Values vjp(const Vjp& v) const {
    const Value open = metronome::apply(Scale{3}, {v.in(0)}, {});
    return {metronome::apply(Times{}, {v.grad(), open}, {})};
  }
};

Value times(Value x, Value y) { return apply(Times{}, {x, y}, Line::here()); }
Value noise(Value x) { return apply(make_op(Noise{}), {&x, 1}, Line::here(), 2)[0]; }

// x - block: w x - noise - squared - loss
Graph model() {
  Graph g("g");
  const Type type{f32, {}};
  const Value x = g.input("x", f32, {});
  const Value y = x.scope("block", [&](Value h) {
    const Value made = noise(times(h, g.parameter("w", type, {})));
    return times(made, made);
  });
  g.minimize(scale(y, 2), Descent{});
  return g;
}

Settings recomputing(std::vector<std::string> paths) {
  Settings settings;
  settings.recomputed = std::move(paths);
  return settings;
}

ir::Graph recomputed(const ir::Graph& g, const std::vector<std::string>& paths) {
  return graph_after(passes::recompute, passes::differentiate(g, {}), recomputing(paths));
}

TEST_CASE("gradients read clones, which wait for the gradients that come first") {
  const ir::Graph result = recomputed(model(), {"block"});
  CHECK(result.print() ==
        "graph \"g\"\n"
        "  %0 = input x : f32[]\n"
        "  %1 = read block/w : f32[]\n"
        "  %2 = times(%0, %1) : f32[]  \"block/times\"\n"
        "  %3, %3.1 = noise(%2) : f32[], f32[]  \"block/noise\"\n"
        "  %4 = times(%3, %3) : f32[]  \"block/times_1\"\n"
        "  %5 = scale(%4) {factor=2} : f32[]  \"scale\"\n"
        "  %6 = fill() {1} : f32[]  \"scale.grad\"\n"
        "  %7 = scale(%6) {factor=2} : f32[]  \"scale.grad/scale\"\n"
        "  %8 = times(%0, %1) after %7 : f32[]  \"block/times.again\"\n"
        "  %9, %9.1 = noise(%8) after %7 : f32[], f32[]  \"block/noise.again\"\n"
        "  %10 = times(%7, %9) : f32[]  \"block/times_1.grad/times\"\n"
        "  %11 = times(%7, %9) : f32[]  \"block/times_1.grad/times_1\"\n"
        "  %12 = accumulate(%10, %11) : f32[]  \"block/times_1.grad/accumulate\"\n"
        "  %13 = times(%12, %9.1) : f32[]  \"block/noise.grad/times\"\n"
        "  %14 = times(%13, %0) : f32[]  \"block/times.grad/times_1\"\n"
        "  \"loss\" is %5\n");
  CHECK(result.nodes()[9].op->equals(*result.nodes()[3].op));  // the same key
}

TEST_CASE("share and fold leave clones alone") {
  const ir::Graph result = recomputed(model(), {"block"});
  const Settings settings;
  CHECK(passes::prune(passes::share(passes::fold(result, settings), settings), settings).print() ==
        "graph \"g\"\n"
        "  %0 = input x : f32[]\n"
        "  %1 = read block/w : f32[]\n"
        "  %2 = times(%0, %1) : f32[]  \"block/times\"\n"
        "  %3, %3.1 = noise(%2) : f32[], f32[]  \"block/noise\"\n"
        "  %4 = times(%3, %3) : f32[]  \"block/times_1\"\n"
        "  %5 = scale(%4) {factor=2} : f32[]  \"scale\"\n"
        "  %6 = fill() {1} : f32[]  \"scale.grad\"\n"
        "  %7 = scale(%6) {factor=2} : f32[]  \"scale.grad/scale\"\n"
        "  %8 = times(%0, %1) after %7 : f32[]  \"block/times.again\"\n"
        "  %9, %9.1 = noise(%8) after %7 : f32[], f32[]  \"block/noise.again\"\n"
        "  %10 = times(%7, %9) : f32[]  \"block/times_1.grad/times\"\n"
        "  %11 = accumulate(%10, %10) : f32[]  \"block/times_1.grad/accumulate\"\n"
        "  %12 = times(%11, %9.1) : f32[]  \"block/noise.grad/times\"\n"
        "  %13 = times(%12, %0) : f32[]  \"block/times.grad/times_1\"\n"
        "  \"loss\" is %5\n");
}

TEST_CASE("what others read stays; a gradient that reads no other waits with the one it serves") {
  // x - a - b - c, d       c and d read b, and so does d's gradient: only a is computed again
  Graph g("g");
  const Value x = g.input("x", f32, {}), w = g.parameter("w", Type{f32, {}}, {});
  const Value a = node(g, "block/a", Times{}, {x, w});
  const Value b = node(g, "block/b", Gate{}, {a});
  g.output("c", node(g, "c", Times{}, {b, b}));
  g.minimize(node(g, "d", Times{}, {b, b}), Descent{});
  CHECK(recomputed(g, {"block"}).print() ==
        "graph \"g\"\n"
        "  %0 = input x : f32[]\n"
        "  %1 = read w : f32[]\n"
        "  %2 = times(%0, %1) : f32[]  \"block/a\"\n"
        "  %3 = gate(%2) : f32[]  \"block/b\"\n"
        "  %4 = times(%3, %3) : f32[]  \"c\"\n"
        "  %5 = times(%3, %3) : f32[]  \"d\"\n"
        "  %6 = fill() {1} : f32[]  \"d.grad\"\n"
        "  %7 = times(%6, %3) : f32[]  \"d.grad/times\"\n"
        "  %8 = times(%6, %3) : f32[]  \"d.grad/times_1\"\n"
        "  %9 = accumulate(%7, %8) : f32[]  \"d.grad/accumulate\"\n"
        "  %10 = times(%0, %1) after %9 : f32[]  \"block/a.again\"\n"
        "  %11 = scale(%10) {factor=3} : f32[]  \"block/b.grad/scale\"\n"
        "  %12 = times(%9, %11) : f32[]  \"block/b.grad/times\"\n"
        "  %13 = times(%12, %0) : f32[]  \"block/a.grad/times_1\"\n"
        "  \"c\" is %4\n"
        "  \"loss\" is %5\n");
  // Segments of one node each: b, which is in another one, reads a.
  CHECK(recomputed(g, {"block/a", "block/b"}).print() ==
        passes::prune(passes::differentiate(g, {}), {}).print());
}

TEST_CASE("without a path, or with one of nothing, or to evaluate: the same graph") {
  const ir::Graph g = passes::differentiate(model(), {});
  CHECK(passes::recompute(g, {}).print() == g.print());
  Settings settings = recomputing({"block"});
  settings.mode = Mode::evaluate;
  CHECK(passes::recompute(g, settings).print() == g.print());
  CHECK(recomputed(model(), {"bloc", "block/nothing"}).print() == passes::prune(g, {}).print());
}

// x w - block0 - ... - block5 - total       block: squared - gate - noise - gate
Graph chain() {
  Graph g("chain");
  Value y = times(g.input("x", f32, {1024}), g.parameter("w", floats(1024), {}));
  for (int i = 0; i < 6; ++i) {
    y = y.scope(fmt::format("block{}", i), [](Value h) {
      const Value gated = apply(Gate{}, {times(h, h)}, Line::here());
      return apply(Gate{}, {noise(gated)}, Line::here());
    });
  }
  g.minimize(apply(Total{}, {y}, Line::here()), Descent{});
  return g;
}

TEST_CASE("the arena is smaller, and no order makes clones early") {
  Settings settings = recomputing({"block0", "block1", "block2", "block3", "block4", "block5"});
  const auto made = [&](const Settings& with) {
    ir::Graph graph = chain();
    for (const auto pass : {passes::differentiate, passes::recompute, passes::update, passes::fold,
                            passes::share, passes::prune, passes::materialize}) {
      graph = pass(graph, with);
      check::verify(graph, "under test");
    }
    return graph;
  };
  const auto arena = [&](const ir::Graph& graph) {
    const plan::StepPlan plan = plan::plan_step(graph, {}, settings);
    CHECK(testing::check_plan(graph, plan.schedule, {}, plan.memory, settings).value_or("") == "");
    return plan.memory.arena_bytes;
  };
  const ir::Graph keeps = made({}), again = made(settings);
  MESSAGE("arena ", arena(keeps), " bytes as it is, ", arena(again), " with blocks made again");
  CHECK(2 * arena(again) <= arena(keeps));
  const auto clone = [](const Node& node) { return node.path.get().ends_with(".again"); };
  CHECK(std::ranges::count_if(again.nodes(), clone) == 6 * 3);
  for (const plan::Schedule& schedule : plan::schedules(again, settings)) {
    std::vector<bool> done(again.nodes().size());
    for (const std::int32_t n : schedule.order) {
      for (const std::int32_t waited : again.nodes()[n].waits_for) CHECK(done[waited]);
      done[n] = true;
    }
  }
}

}  // namespace
}  // namespace metronome::testing::recompute_test
