// What can be judged only when the whole declaration is there.
#include <fmt/format.h>

#include <algorithm>

#include "graph/builder/graph.h"
#include "graph/builder/state.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"

namespace metronome {
namespace {

/// True where a trainable parameter can be reached from `from` through floating values.
bool reaches_parameter(const GraphState& state, ValueId from) {
  std::vector<bool> seen(state.nodes.size(), false);
  std::vector<std::int32_t> todo = {from.node};
  while (!todo.empty()) {
    const std::int32_t index = todo.back();
    todo.pop_back();
    if (seen[index]) continue;
    seen[index] = true;
    const Node& node = state.nodes[index];
    if (const Read* read = node.op->as<Read>()) {
      if (state.storages[read->storage.index].trainable) return true;
    }
    if (node.op->gradient() == Gradient::none) continue;
    for (const ValueId input : node.inputs) todo.push_back(input.node);
  }
  return false;
}

}  // namespace

void Graph::validate() const {
  std::vector<std::string> mistakes = state().mistakes;
  for (std::size_t i = 0; i < state().storages.size(); ++i) {
    const Storage& s = state().storages[i];
    if (s.kind != StorageKind::state) continue;
    const auto fed = std::any_of(
        state().assignments.begin(), state().assignments.end(),
        [&](const Assignment& a) { return a.storage.index == static_cast<std::int32_t>(i); });
    if (!fed && state().mistakes.empty()) {
      mistakes.push_back(
          fmt::format("{}: state \"{}\" is never fed\n"
                      "  requires   one Graph::feed(state, next) for each state\n"
                      "  way out    use Graph::parameter or an input for what no step changes",
                      to_string(s.line), s.path));
    }
  }
  if (state().loss.present() && state().mistakes.empty() &&
      !reaches_parameter(state(), state().loss)) {
    mistakes.push_back(fmt::format(
        "{}: minimize has nothing to train\n"
        "  requires   a loss that reaches a trainable parameter\n"
        "  way out    thaw a parameter, or leave minimize out and compile the forward pass alone",
        to_string(state().loss_line)));
  }
  const bool reads_gradient =
      std::any_of(state().nodes.begin(), state().nodes.end(),
                  [](const Node& n) { return n.op->as<GradientOf>() != nullptr; });
  if (reads_gradient && !state().loss.present() && state().mistakes.empty()) {
    mistakes.push_back(
        fmt::format("graph \"{}\": gradient(value) has no loss\n"
                    "  requires   one Graph::minimize(loss, optimizer)",
                    name()));
  }
  if (!mistakes.empty()) throw GraphError(std::move(mistakes));
}

}  // namespace metronome
