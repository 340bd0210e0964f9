#include "graph/schedule.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "graph/exclusions.h"
#include "graph/lifetimes.h"
#include "graph/orders.h"
#include "graph/precedence.h"
#include "graph/uses.h"

namespace metronome {

/// How much higher the peak may be for few regions.
constexpr double kRoomForFewRegions = 1.1;

Schedule schedule(const Graph& graph, const Settings& settings) {
  const std::size_t alignment = settings.alignment;
  const Uses uses = uses_of(graph);
  const Precedence precedence = precedence_of(graph, uses);
  const NumberedGuards guards = number_guards(graph, settings);
  const OrderProblem problem = order_problem(graph, uses, precedence, alignment);

  const auto scheduled = [&](const std::vector<std::int32_t>& running) {
    std::vector<std::int32_t> order = with_still_nodes(graph, uses, running);
    const Lifetimes lifetimes =
        lifetimes_of(graph, uses, order, precedence.in_place, guards, alignment);
    const auto peak = static_cast<std::int64_t>(peak_of(lifetimes.blocks, guards.excludes).bytes);
    return Schedule{std::move(order), precedence.in_place, peak};
  };
  const auto keep_lower = [](std::optional<Schedule>& best, Schedule found) {
    if (!best || found.peak_bytes < best->peak_bytes) best = std::move(found);
  };
  const bool regions = std::any_of(graph.nodes().begin(), graph.nodes().end(),
                                   [](const Node& node) { return node.guard.present(); });
  std::optional<Schedule> best, together;
  for (const std::vector<std::int32_t>& running : {
           declared_order(problem),
           early_updates_order(problem, alignment),
           forward_greedy_order(problem),
           backward_greedy_order(problem),
           depth_first_order(problem, Sinks::declared),
           depth_first_order(problem, Sinks::reversed),
       }) {
    keep_lower(best, scheduled(running));
    if (regions) keep_lower(together, scheduled(regions_together(problem, graph, running)));
  }
  if (!together) return *best;
  // A target that skips does so by a jump, which costs nothing.
  const double room = settings.skips ? 1 : kRoomForFewRegions;
  const double most = room * static_cast<double>(best->peak_bytes);
  return static_cast<double>(together->peak_bytes) <= most ? *together : *best;
}

}  // namespace metronome
