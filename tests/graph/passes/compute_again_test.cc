// Values that are not kept across a split are made again behind it: the graph after the pass, the
// choice that leads to it, and the bytes that both hold, of small graphs and of random ones.
#include "graph/passes/compute_again.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "graph/check/check_plan.h"
#include "graph/check/verify.h"
#include "graph/ir/error.h"
#include "graph/placement/placement.h"
#include "graph/plan/choose_recomputed.h"
#include "graph/plan/lifetimes.h"
#include "graph/plan/planner.h"
#include "graph/plan/precedence.h"
#include "graph/plan/recompute_model.h"
#include "graph/plan/schedules.h"
#include "tests/graph/check_bound.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::compute_again_test {
namespace {

double one_second(std::int32_t) { return 1; }

/// The order that a graph's nodes stand in, as a schedule.
plan::Schedule as_declared(const ir::Graph& graph) {
  plan::Schedule schedule;
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(graph.nodes().size()); ++n) {
    schedule.order.push_back(n);
  }
  schedule.in_place = plan::precedence_of(graph, plan::uses_apart(graph, 64)).in_place;
  return schedule;
}

/// Whether nodes may run as they stand, with the assignments that are made in place.
bool may_run_as_declared(const ir::Graph& graph) {
  const plan::Precedence precedence = plan::precedence_of(graph, plan::uses_apart(graph, 64));
  for (std::size_t n = 0; n < precedence.before.size(); ++n) {
    for (const std::int32_t before : precedence.before[n]) {
      if (before > static_cast<std::int32_t>(n)) return false;
    }
  }
  return true;
}

plan::RecomputeModel model_of(const ir::Graph& graph, const plan::Schedule& schedule) {
  return plan::RecomputeModel(graph, schedule, {}, one_second, {});
}

/// The most bytes that the order holds, as the planner's own walk counts them.
std::size_t held_by(const ir::Graph& graph, const plan::Schedule& schedule) {
  const plan::Uses uses = plan::uses_apart(graph, 64);
  const control::NumberedGuards guards = control::number_guards(graph.nodes(), {});
  const plan::Lifetimes lives =
      plan::lifetimes_of(graph, uses, schedule.order, schedule.in_place, guards, 64);
  return plan::peak_of(lives.blocks, guards.excludes).bytes;
}

// x - a - b - c - d - e, which reads a, and f, which reads a view of b
ir::Graph chain() {
  Graph g("chain");
  const Value x = g.input("x", f32, {64});
  const Value a = node(g, "a", Scale{2}, {x});
  const Value b = node(g, "b", Plus{}, {a, x});
  const Value c = node(g, "c", Blend{floats(16)}, {b});
  const Value d = node(g, "d", Blend{floats(16)}, {c});
  const Value e = node(g, "e", Blend{floats(64)}, {d, a});
  const Value head = node(g, "head", Head{16, 16}, {b});
  g.output("f", node(g, "f", Blend{floats(16)}, {e, head}));
  return g;
}

TEST_CASE("late nodes read clones, and views of clones, which wait for what is read with them") {
  const ir::Graph graph = chain();
  const plan::Recomputation planned{.order = {1, 2, 3, 4, 5, 7},
                                    .split = 3,
                                    .dropped = {{1, 0}, {2, 0}},
                                    .clones = {{1, 4}, {2, 5}}};
  const passes::GraphWithClones made = passes::compute_again(graph, planned);
  check::verify(made.graph, "under test");
  CHECK(made.graph.print() ==
        "graph \"chain\"\n"
        "  %0 = input x : f32[64]\n"
        "  %1 = scale(%0) {factor=2} : f32[64]  \"a\"\n"
        "  %2 = plus(%1, %0) : f32[64]  \"b\"\n"
        "  %3 = blend(%2) {f32[16]} : f32[16]  \"c\"\n"
        "  %4 = blend(%3) {f32[16]} : f32[16]  \"d\"\n"
        "  %5 = scale(%0) {factor=2} after %4 : f32[64]  \"a.again\"\n"
        "  %6 = blend(%4, %5) {f32[64]} : f32[64]  \"e\"\n"
        "  %7 = plus(%5, %0) after %6 : f32[64]  \"b.again\"\n"
        "  %8 = head(%2) {begin=16 rows=16} : f32[16]  \"head\"\n"
        "  %9 = head(%7) {begin=16 rows=16} : f32[16]  \"head.again\"\n"
        "  %10 = blend(%6, %9) {f32[16]} : f32[16]  \"f\"\n"
        "  \"f\" is %10\n");
  CHECK(made.origins == std::vector<std::int32_t>{0, 1, 2, 3, 4, 1, 5, 2, 6, 6, 7});
}

TEST_CASE("a value that is dropped without a clone is a mistake of the plan") {
  const plan::Recomputation planned{
      .order = {1, 2, 3, 4, 5, 7}, .split = 3, .dropped = {{1, 0}}, .clones = {}};
  CHECK_THROWS_WITH_AS(passes::compute_again(chain(), planned),
                       "Metronome made a mistake of its own, please report it: \"a\" is dropped, "
                       "but has no clone",
                       InternalError);
}

TEST_CASE("nothing is computed again within the limit, and as little as it takes below it") {
  const ir::Graph graph = chain();
  const plan::Schedule schedule = as_declared(graph);
  const auto chosen = [&](std::size_t limit) {
    return plan::choose_recomputed(graph, schedule, {}, one_second, limit, 1'000'000, {});
  };
  const std::size_t held = held_by(graph, schedule);
  CHECK(held == 256 + 256 + 64 + 256);
  CHECK(chosen(held).made.clones.empty());
  const plan::ChosenRecomputation one = chosen(held - 1);
  CHECK(one.peak_bytes < held);
  CHECK(one.seconds == 1);
  REQUIRE(one.made.clones.size() == 1);
  CHECK(chosen(0).peak_bytes <= one.peak_bytes);
  CHECK(chosen(0).made == chosen(0).made);
  const plan::ChosenRecomputation least = chosen(0);
  CHECK(plan::repeat_recomputation(graph, schedule, least.made.split, least.made.dropped, {}) ==
        least.made);
}

TEST_CASE("what may not run twice, or not late, is kept") {
  // sent has an effect; next overwrites w, which `early` reads before; go is a guard.
  Graph g("kept");
  const Value x = g.input("x", f32, {64});
  const Value w = g.parameter("w", floats(64), {});
  const Value sent = node(g, "sent", Send{}, {x});
  const Value early = node(g, "early", Blend{floats(64)}, {w});
  const Value next = node(g, "next", Plus{}, {w, early});
  const Value go = node(g, "go", Blend{Type{bool_, {}}}, {x});
  const Value free = node(g, "free", Scale{2}, {x});
  Node guarded{make_op(Scale{3}), {free.id()}, {}, "guarded", Line{}, go.id()};
  g.value(g.emitter().graph.append(guarded));
  const Value late = node(g, "late", Blend{floats(64)}, {sent, early, free, next});
  g.output("y", late);
  g.emitter().graph.set_assignments({{*g.data().find_storage("w"), next.id(), Line{}}});
  const ir::Graph graph = g;
  const plan::Schedule schedule = as_declared(graph);
  REQUIRE(schedule.in_place == std::vector<bool>{true});
  plan::RecomputeModel model = model_of(graph, schedule);
  std::vector<std::string> may;
  const plan::Recomputation order = model.describe(0, plan::RecomputeModel::Dropped(model.roots()));
  const auto split = static_cast<std::int32_t>(order.order.size()) - 1;
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(graph.nodes().size()); ++n) {
    const auto dropped = model.dropped_of(split, {{n, 0}});
    if (std::ranges::count(dropped, true) == 1) may.push_back(graph.nodes()[n].path);
  }
  CHECK(may == std::vector<std::string>{"free", "guarded"});
}

/// Random choices at random splits.
struct RandomChoice {
  std::int32_t split = 0;
  plan::RecomputeModel::Dropped dropped;
};
RandomChoice random_choice(const plan::RecomputeModel& model, std::mt19937& random) {
  RandomChoice choice{static_cast<std::int32_t>(random() % (model.places() + 1)),
                      plan::RecomputeModel::Dropped(model.roots())};
  for (std::int32_t root = 0; root < model.roots(); ++root) {
    choice.dropped[root] = model.may_drop(root, choice.split) && random() % 3 != 0;
  }
  return choice;
}

TEST_CASE("random graphs hold the bytes of the sketch, and their plans pass the check") {
  int compared = 0, clones = 0, in_place_lost = 0;
  for (int seed = 0; seed < graphs(400); ++seed) {
    CAPTURE(seed);
    RandomGraph random(static_cast<std::uint32_t>(seed), Guarding::no, seed % 2 == 0);
    const ir::Graph graph = random.make();
    plan::RecomputeModel model = model_of(graph, plan::schedule(graph, {}));
    std::mt19937 numbers(static_cast<std::uint32_t>(seed));
    for (int i = 0; i < 4; ++i) {
      const RandomChoice choice = random_choice(model, numbers);
      const plan::Recomputation planned = model.describe(choice.split, choice.dropped);
      const passes::GraphWithClones made = passes::compute_again(graph, planned);
      CHECK(made.graph.nodes().size() >= graph.nodes().size() + planned.clones.size());
      clones += static_cast<int>(planned.clones.size());
      const plan::StepPlan step = plan::plan_step(made.graph, {}, {});
      CHECK(check_plan(made.graph, step.schedule, {}, step.memory, {}).value_or("") == "");
      const plan::Schedule declared = as_declared(made.graph);
      if (declared.in_place != as_declared(graph).in_place || !may_run_as_declared(made.graph)) {
        ++in_place_lost;
        continue;
      }
      CHECK(model.sketch(choice.split, choice.dropped).peak_bytes == held_by(made.graph, declared));
      ++compared;
    }
  }
  MESSAGE(compared, " choices with ", clones, " clones; ", in_place_lost,
          " whose assignments are made elsewhere");
  CHECK(compared > 10 * in_place_lost);
  CHECK(clones > compared);
}

TEST_CASE("random graphs with guards are verified, too") {
  int clones = 0;
  for (int seed = 0; seed < graphs(200); ++seed) {
    CAPTURE(seed);
    const ir::Graph graph = RandomGraph(static_cast<std::uint32_t>(seed), Guarding::yes).make();
    plan::RecomputeModel model = model_of(graph, plan::schedule(graph, {}));
    std::mt19937 numbers(static_cast<std::uint32_t>(seed));
    const RandomChoice choice = random_choice(model, numbers);
    const plan::Recomputation planned = model.describe(choice.split, choice.dropped);
    const passes::GraphWithClones made = passes::compute_again(graph, planned);
    check::verify(made.graph, "under test");
    clones += static_cast<int>(planned.clones.size());
    for (const bool skips : {false, true}) {
      Settings settings;
      settings.skips = skips;
      const plan::StepPlan step = plan::plan_step(made.graph, {}, settings);
      CHECK(check_plan(made.graph, step.schedule, {}, step.memory, settings).value_or("") == "");
    }
  }
  CHECK(clones > 200);
}

}  // namespace
}  // namespace metronome::testing::compute_again_test
