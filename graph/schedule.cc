#include "graph/schedule.h"

#include <utility>

#include "graph/lifetimes.h"
#include "graph/orders.h"
#include "graph/precedence.h"
#include "graph/uses.h"

namespace metronome {

Schedule schedule(const Graph& graph, const Settings& settings) {
  const std::size_t alignment = settings.alignment;
  const Uses uses = uses_of(graph);
  const Precedence precedence = precedence_of(graph, uses);
  const OrderProblem problem = order_problem(graph, uses, precedence, alignment);

  Schedule best;
  bool first = true;
  for (const std::vector<std::int32_t>& running : {
           declared_order(problem),
           early_updates_order(problem, alignment),
           forward_greedy_order(problem),
           backward_greedy_order(problem),
           depth_first_order(problem, Sinks::declared),
           depth_first_order(problem, Sinks::reversed),
       }) {
    std::vector<std::int32_t> order = with_still_nodes(graph, uses, running);
    const Lifetimes lifetimes = lifetimes_of(graph, uses, order, precedence.in_place, alignment);
    const auto peak = static_cast<std::int64_t>(peak_of(lifetimes.blocks).bytes);
    if (!first && peak >= best.peak_bytes) continue;
    best = {std::move(order), precedence.in_place, peak};
    first = false;
  }
  return best;
}

}  // namespace metronome
