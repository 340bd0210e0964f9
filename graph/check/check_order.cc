#include "graph/check/check_order.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "graph/check/check_waits.h"

namespace metronome::check {
namespace {

bool is_view(const ir::Graph& graph, const Node& node) { return graph.alias(node).has_value(); }

/// Each node runs once: `step_of` becomes the step of each.
Mistake find_steps(const ir::Graph& graph, const plan::Schedule& schedule,
                   std::vector<std::int32_t>& step_of) {
  const auto nodes = static_cast<std::int32_t>(graph.nodes().size());
  step_of.assign(graph.nodes().size(), -1);
  for (std::int32_t step = 0; step < nodes; ++step) {
    const std::int32_t index = schedule.order[step];
    if (index < 0 || index >= nodes) return fmt::format("step {} runs no node: {}", step, index);
    if (step_of[index] >= 0) {
      return fmt::format("\"{}\" runs at step {} and again at step {}", graph.nodes()[index].path,
                         step_of[index], step);
    }
    step_of[index] = step;
  }
  return std::nullopt;
}

/// Checks that a node's operands are made before it runs.
Mistake check_reads(const ir::Graph& graph, const plan::Schedule& schedule,
                    const std::vector<std::int32_t>& step_of) {
  for (std::int32_t index : schedule.order) {
    const Node& node = graph.nodes()[index];
    // A view asks no guard: it is there with what it views.
    for (ValueId operand : is_view(graph, node) ? node.inputs : ValueLives::operands(node)) {
      if (step_of[operand.node] < step_of[index]) continue;
      return fmt::format("\"{}\" runs at step {}, but {}, which it reads, is made at step {}",
                         node.path, step_of[index], ValueLives::name(graph, operand),
                         step_of[operand.node]);
    }
  }
  return std::nullopt;
}

/// Nodes with effects run as they were declared.
Mistake check_effects(const ir::Graph& graph, const std::vector<std::int32_t>& step_of) {
  std::int32_t last = -1;
  for (std::int32_t index = 0; index < static_cast<std::int32_t>(step_of.size()); ++index) {
    if (!graph.nodes()[index].op->effects()) continue;
    if (last >= 0 && step_of[last] > step_of[index]) {
      return fmt::format("\"{}\" runs at step {}, before \"{}\" at step {}, but both have effects",
                         graph.nodes()[index].path, step_of[index], graph.nodes()[last].path,
                         step_of[last]);
    }
    last = index;
  }
  return std::nullopt;
}

}  // namespace

Mistake check_order(const ir::Graph& graph, const plan::Schedule& schedule) {
  std::vector<std::int32_t> step_of;
  if (Mistake fault = find_steps(graph, schedule, step_of)) return fault;
  if (Mistake fault = check_reads(graph, schedule, step_of)) return fault;
  if (Mistake fault = check_effects(graph, step_of)) return fault;
  return check_waits(graph, step_of);
}

}  // namespace metronome::check
