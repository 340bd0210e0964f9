#include "graph/check/check_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/check/check_order.h"
#include "graph/check/check_places.h"
#include "graph/check/check_writes.h"
#include "graph/check/checked_plan.h"

namespace metronome::check {
namespace {

/// The plan has one entry for each thing of the graph.
Mistake check_form(const ir::Graph& graph, const plan::Schedule& schedule, const Sizes& scratch,
                   const plan::MemoryPlan& plan) {
  const std::size_t nodes = graph.nodes().size();
  struct Count {
    std::string what;
    std::size_t has;
    std::size_t must;
  };
  std::vector<Count> counts = {
      {"nodes in the order", schedule.order.size(), nodes},
      {"assignments in the schedule", schedule.in_place.size(), graph.assignments().size()},
      {"scratch sizes", scratch.empty() ? nodes : scratch.size(), nodes},
      {"scratch offsets", plan.scratch_offsets.size(), nodes},
      {"readable blocks", plan.readable_bytes.size(), graph.readables().size()},
      {"nodes in the plan", plan.places.size(), nodes},
  };
  for (std::size_t i = 0; i < std::min(nodes, plan.places.size()); ++i) {
    const Node& node = graph.nodes()[i];
    counts.push_back(
        {fmt::format("places of \"{}\"", node.path), plan.places[i].size(), node.types.size()});
  }
  for (const auto& [what, has, must] : counts) {
    if (has != must) return fmt::format("{}: {}, but must be {}", what, has, must);
  }
  return std::nullopt;
}

}  // namespace

Mistake check_plan(const ir::Graph& graph, const plan::Schedule& schedule,
                   const Sizes& scratch_bytes, const plan::MemoryPlan& plan,
                   const Settings& settings) {
  if (Mistake fault = check_form(graph, schedule, scratch_bytes, plan)) return fault;
  if (Mistake fault = check_order(graph, schedule)) return fault;
  CheckedPlan c(graph, schedule, scratch_bytes, plan, settings);
  if (Mistake fault = find_fixed(c)) return fault;
  c.insides = Insides(graph, c.lives, plan, [&c](ValueId id) { return c.fixed.contains(id); });
  if (Mistake fault = check_places(c)) return fault;
  return check_writes(c);
}

}  // namespace metronome::check
