#include "graph/plan/schedules.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "graph/control/exclusions.h"
#include "graph/plan/lifetimes.h"
#include "graph/plan/orders.h"
#include "graph/plan/precedence.h"
#include "graph/plan/uses.h"
#include "graph/rules/prompt.h"

namespace metronome::plan {

namespace {

/// How much higher the peak may be for few regions, where a region costs something.
constexpr double kSlackForFewRegions = 1.1;
/// The work of lowering peaks, of all orders together: so much for each node, and some hundredths
/// of a second at most.
constexpr std::size_t kLowerWorkOfNode = 3'000, kMostLowerWork = 12'000'000;

/// By peak bytes, the earlier one of equals first, each order once.
std::vector<Schedule> sort_distinct(std::vector<Schedule> schedules) {
  std::stable_sort(schedules.begin(), schedules.end(), [](const Schedule& a, const Schedule& b) {
    return a.peak_bytes < b.peak_bytes;
  });
  std::vector<Schedule> distinct;
  for (Schedule& s : schedules) {
    if (std::ranges::find(distinct, s) == distinct.end()) distinct.push_back(std::move(s));
  }
  return distinct;
}

bool has_regions(const ir::Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) { return node.guard.present(); });
}

/// The schedule of an order of running nodes.
Schedule scheduled(const ir::Graph& graph, const OrderProblem& problem,
                   const control::NumberedGuards& guards, std::size_t alignment,
                   const std::vector<std::int32_t>& running) {
  const std::vector<bool>& in_place = problem.precedence.in_place;
  std::vector<std::int32_t> order = with_still_nodes(graph, problem.uses, running);
  const Lifetimes lifetimes = lifetimes_of(graph, problem.uses, order, in_place, guards, alignment);
  const auto peak = static_cast<std::int64_t>(peak_of(lifetimes.blocks, guards.excludes).bytes);
  return {std::move(order), in_place, peak};
}

}  // namespace

std::vector<Schedule> schedules(const ir::Graph& graph, const Settings& settings) {
  const std::size_t alignment = settings.alignment;
  const Uses uses = uses_of(graph, alignment);
  const Precedence precedence = precedence_of(graph, uses);
  const control::NumberedGuards guards = control::number_guards(graph.nodes(), settings);
  const OrderProblem problem = order_problem(graph, uses, precedence, alignment);

  const auto add = [&](std::vector<Schedule>& to, const std::vector<std::int32_t>& running) {
    to.push_back(
        scheduled(graph, problem, guards, alignment, begin_prompt_early(problem, graph, running)));
  };
  const bool regions = has_regions(graph);
  std::vector<Schedule> found, together;
  for (const std::vector<std::int32_t>& running : {
           declared_order(problem),
           early_updates_order(problem, alignment),
           forward_greedy_order(problem),
           backward_greedy_order(problem),
           depth_first_order(problem, SinkOrder::declared),
           depth_first_order(problem, SinkOrder::reversed),
       }) {
    add(found, running);
    if (regions) add(together, regions_together(problem, graph, running));
  }
  if (settings.skips || !regions) {
    // Skipping is a jump, which costs nothing; few regions are welcome all the same.
    together.insert(together.end(), found.begin(), found.end());
    return sort_distinct(std::move(together));
  }
  found = sort_distinct(std::move(found));
  together = sort_distinct(std::move(together));
  const double most = kSlackForFewRegions * static_cast<double>(found[0].peak_bytes);
  return static_cast<double>(together[0].peak_bytes) <= most ? together : found;
}

Schedule schedule(const ir::Graph& graph, const Settings& settings) {
  return std::move(schedules(graph, settings)[0]);
}

std::vector<Schedule> lowered_schedules(const ir::Graph& graph, const Settings& settings,
                                        const Uses& uses, std::span<const Schedule> from) {
  const bool asked_for = settings.plan_work.value_or(0) > 0 && !has_regions(graph);
  const bool prompt = std::ranges::any_of(
      graph.nodes(), [](const Node& node) { return node.op->ask<PromptRule>(); });
  if ((!settings.skips && !asked_for) || prompt || settings.plan_work == 0) return {};
  const Precedence precedence = precedence_of(graph, uses);
  const OrderProblem problem = order_problem(graph, uses, precedence, settings.alignment);
  const control::NumberedGuards guards = control::number_guards(graph.nodes(), settings);
  std::vector<Schedule> lowered;
  std::size_t work = std::min(kLowerWorkOfNode * graph.nodes().size(), kMostLowerWork);
  for (const Schedule& each : from) {
    std::vector<std::int32_t> running;
    std::ranges::copy_if(each.order, std::back_inserter(running),
                         [&](std::int32_t node) { return uses.runs[node]; });
    std::vector<std::int32_t> lower = lower_peak(problem, graph, running, work);
    if (lower == running) continue;
    lowered.push_back(scheduled(graph, problem, guards, settings.alignment, lower));
  }
  return sort_distinct(std::move(lowered));
}

}  // namespace metronome::plan
