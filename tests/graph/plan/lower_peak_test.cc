// Orders that are bettered at their fullest moment: never higher than before, and close to the best
// of all orders where these can be counted.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "graph/control/exclusions.h"
#include "graph/placement/placement.h"
#include "graph/plan/lifetimes.h"
#include "graph/plan/orders.h"
#include "graph/plan/planner.h"
#include "graph/plan/precedence.h"
#include "graph/plan/schedules.h"
#include "graph/plan/uses.h"
#include "tests/graph/check_bound.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::lower_peak_test {
namespace {

constexpr std::size_t kAlignment = 64;

/// Nodes of several sizes, each of which reads one to three earlier ones, and none takes over
/// bytes.
ir::Graph random_blends(std::uint32_t seed, int nodes) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  Graph g("blends");
  Values all{g.input("x", f32, {16})};
  for (int i = 0; i < nodes; ++i) {
    std::vector<Value> reads;
    for (std::size_t k = 1 + below(3); k > 0; --k) {
      reads.push_back(all[all.size() - 1 - below(std::min<std::size_t>(all.size(), 6))]);
    }
    const auto rows = static_cast<std::int64_t>(16 * (1 + below(12)));
    all.push_back(node(g, fmt::format("n{}", i), Blend{floats(rows)}, reads));
  }
  g.output("y", node(g, "y", Blend{floats(1)}, {all.back()}));
  return g;
}

/// The lowest peak of all orders, by the sets of nodes that have run.
std::size_t best_peak(const ir::Graph& graph) {
  const plan::Uses uses = plan::uses_of(graph, kAlignment);
  const plan::Precedence precedence = plan::precedence_of(graph, uses);
  const plan::OrderProblem problem = plan::order_problem(graph, uses, precedence, kAlignment);
  std::vector<std::int32_t> running;
  std::vector<std::uint32_t> bit(uses.runs.size());
  for (std::int32_t n = 0; n < uses.nodes(); ++n) {
    if (!uses.runs[n]) continue;
    bit[n] = 1u << running.size();
    running.push_back(n);
  }
  const auto set_of = [&](const std::vector<std::int32_t>& nodes) {
    std::uint32_t set = 0;
    for (const std::int32_t n : nodes) set |= bit[n];
    return set;
  };
  std::vector<std::size_t> peak(std::size_t{1} << running.size(), SIZE_MAX);
  peak[0] = 0;
  for (std::uint32_t done = 0; done < peak.size(); ++done) {
    if (peak[done] == SIZE_MAX) continue;
    std::size_t live = 0;
    for (std::int32_t v = 0; v < uses.values(); ++v) {
      const bool made = (done & bit[uses.ids[v].node]) != 0;
      if (made && (set_of(uses.readers[v]) & ~done) != 0) live += problem.held[v];
    }
    for (const std::int32_t n : running) {
      if ((done & bit[n]) != 0 || (set_of(precedence.before[n]) & ~done) != 0) continue;
      std::size_t now = live;
      for (std::int32_t v = uses.first[n]; v < uses.first[n + 1]; ++v) now += problem.held[v];
      std::size_t& then = peak[done | bit[n]];
      then = std::min(then, std::max(peak[done], now));
    }
  }
  return peak.back();
}

TEST_CASE("of twelve nodes nearly all orders are the best that there are") {
  int best = 0;
  double sum = 0, worst = 1;  // found / least
  constexpr int kGraphs = 300;
  Settings searching;
  searching.plan_work = 1;
  for (std::uint32_t seed = 1; seed <= kGraphs; ++seed) {
    CAPTURE(seed);
    const ir::Graph graph = random_blends(seed, 12);
    const plan::StepPlan step = plan::plan_step(graph, {}, searching);
    const auto found = static_cast<double>(step.memory.held_bytes);
    const auto least = static_cast<double>(best_peak(graph));
    CHECK(found >= least);
    best += found == least;
    sum += found / least;
    worst = std::max(worst, found / least);
  }
  MESSAGE(best, " of ", kGraphs, " at the best peak; mean ", sum / kGraphs, ", worst ", worst);
  CHECK(best >= 275);  // 213 without the moves
  CHECK(sum <= 1.01 * kGraphs);
}

// x - wide0 - narrow0 - y
//   - wide1 - narrow1 -/ ...
TEST_CASE("branches that were declared side by side run one after the other") {
  Graph g("branches");
  const Value x = g.input("x", f32, {16});
  Values wide, narrow;
  for (int i = 0; i < 4; ++i) {
    wide.push_back(node(g, fmt::format("wide{}", i), Blend{floats(160)}, {x}));
  }
  for (int i = 0; i < 4; ++i) {
    narrow.push_back(node(g, fmt::format("narrow{}", i), Blend{floats(16)}, {wide[i]}));
  }
  g.output("y", node(g, "y", Blend{floats(16)}, narrow));
  const ir::Graph graph = g;
  const plan::Uses uses = plan::uses_of(graph, kAlignment);
  const plan::Precedence precedence = plan::precedence_of(graph, uses);
  const plan::OrderProblem problem = plan::order_problem(graph, uses, precedence, kAlignment);
  std::size_t work = 1'000'000;
  const std::vector<std::int32_t> lowered =
      plan::lower_peak(problem, graph, plan::declared_order(problem), work);
  std::string names;
  for (const std::int32_t n : lowered) names += graph.nodes()[n].path.get() + " ";
  CHECK(names == "wide3 narrow3 wide0 narrow0 wide1 narrow1 wide2 narrow2 y ");
  CHECK(work < 1'000'000);
  std::size_t little = 100;
  CHECK(plan::lower_peak(problem, graph, plan::declared_order(problem), little) ==
        plan::declared_order(problem));
  CHECK(little == 100);
}

TEST_CASE("orders of random graphs keep what runs before what, and their peaks never rise") {
  int lower = 0;
  for (int seed = 0; seed < graphs(300); ++seed) {
    CAPTURE(seed);
    const ir::Graph graph =
        RandomGraph(static_cast<std::uint32_t>(seed), Guarding::no, seed % 2 == 0).make();
    const plan::Uses uses = plan::uses_of(graph, kAlignment);
    const plan::Precedence precedence = plan::precedence_of(graph, uses);
    const plan::OrderProblem problem = plan::order_problem(graph, uses, precedence, kAlignment);
    const control::NumberedGuards guards = control::number_guards(graph.nodes(), {});
    const auto peak = [&](const std::vector<std::int32_t>& running) {
      const plan::Lifetimes lives =
          plan::lifetimes_of(graph, uses, plan::with_still_nodes(graph, uses, running),
                             precedence.in_place, guards, kAlignment);
      return plan::peak_of(lives.blocks, guards.excludes).bytes;
    };
    const std::vector<std::int32_t> declared = plan::declared_order(problem);
    std::size_t work = 1'000'000;
    const std::vector<std::int32_t> lowered = plan::lower_peak(problem, graph, declared, work);
    CHECK(std::ranges::is_permutation(lowered, declared));
    std::vector<bool> done(graph.nodes().size());
    for (const std::int32_t n : lowered) {
      for (const std::int32_t before : precedence.before[n]) CHECK(done[before]);
      done[n] = true;
    }
    CHECK(peak(lowered) <= peak(declared));
    lower += peak(lowered) < peak(declared);
  }
  MESSAGE(lower, " orders of ", graphs(300), " are lower than as declared");
  CHECK(lower * 3 > graphs(300));
}

}  // namespace
}  // namespace metronome::testing::lower_peak_test
