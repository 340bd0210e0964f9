#include "graph/check/check_waits.h"

#include <fmt/format.h>

#include "graph/ir/structural.h"

namespace metronome::check {
namespace {

/// The node whose kernel makes the bytes of a node's first result, itself or what it views; -1
/// where they are an input's or a storage's.
std::int32_t maker_of(const ir::Graph& graph, std::int32_t index) {
  while (true) {
    const Node& node = graph.nodes()[index];
    if (node.op->as<Input>() != nullptr || node.op->as<Read>() != nullptr) return -1;
    const auto alias = graph.alias(node);
    if (!alias || node.types.size() > 1) return index;
    index = node.inputs[alias->input].node;
  }
}

}  // namespace

std::optional<std::string> check_waits(const ir::Graph& graph,
                                       const std::vector<std::int32_t>& step_of) {
  for (std::int32_t index = 0; index < static_cast<std::int32_t>(step_of.size()); ++index) {
    const Node& node = graph.nodes()[index];
    for (const std::int32_t waited : node.waits_for) {
      const std::int32_t maker = maker_of(graph, waited);
      if (maker < 0 || step_of[maker] < step_of[index]) continue;
      return fmt::format("\"{}\" runs at step {}, before \"{}\" at step {}, for which it waits",
                         node.path, step_of[index], graph.nodes()[maker].path, step_of[maker]);
    }
  }
  return std::nullopt;
}

}  // namespace metronome::check
