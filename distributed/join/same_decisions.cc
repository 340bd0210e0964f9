#include "distributed/join/same_decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "distributed/ops/collective_ops.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "ops/dropout/dropout.h"
#include "ops/random/random.h"

namespace metronome::distributed {
namespace {

bool is_counter(const ir::Graph& graph, StorageId storage) {
  return graph.storage(storage).kind == StorageKind::counter;
}

/// Whether a node's results are the same on all ranks, if those of earlier nodes are as `same`
/// says.
bool same_on_all(const ir::Graph& graph, const Node& node, const std::vector<bool>& same) {
  if (node.op->as<Input>() != nullptr || node.op->as<Dropout>() != nullptr) return false;
  if (const Read* read = node.op->as<Read>()) return is_counter(graph, read->storage);
  if (node.op->as<ReadUpdated>() != nullptr) return false;
  if (const Random* random = node.op->as<Random>()) {
    return random->same_on_ranks && same[node.inputs[0].node];
  }
  if (gives_all_the_same(*node.op)) return true;
  return std::ranges::all_of(node.inputs, [&](ValueId id) { return same[id.node]; });
}

/// The first value that goes into `value` and may differ, for the message.
ValueId first_that_differs(const ir::Graph& graph, ValueId value, const std::vector<bool>& same) {
  while (true) {
    const Node& node = graph.node(value);
    const auto next = std::ranges::find_if(node.inputs, [&](ValueId id) { return !same[id.node]; });
    if (next == node.inputs.end()) return value;
    value = *next;
  }
}

std::string value_text(const ir::Graph& graph, ValueId id) {
  const Node& node = graph.node(id);
  std::string name = node.path.get();
  if (const Read* read = node.op->as<Read>()) name = graph.storage(read->storage).path;
  return fmt::format("{}  \"{}\"  {}", to_string(graph.type(id)), name, to_string(node.line));
}

}  // namespace

void require_same_decisions(const ir::Graph& graph) {
  std::vector<bool> same;
  std::vector<std::string> mistakes;
  for (const Node& node : graph.nodes()) {
    same.push_back(same_on_all(graph, node, same));
    if (!node.guard.present() || same[node.guard.node]) continue;
    if (!is_collective(*node.op)) continue;
    std::string mistake = fmt::format(
        "{}: {} cannot run where ranks may decide differently whether it runs\n"
        "  decided by {}\n"
        "  requires   a decision made of constants, counters and what mt::all_reduce or "
        "mt::broadcast gave\n"
        "  way out    let one of them join what decides, outside of the region",
        to_string(node.line), node.op->name(),
        value_text(graph, first_that_differs(graph, node.guard, same)));
    // One line of a loop is many nodes.
    if (std::ranges::find(mistakes, mistake) == mistakes.end()) {
      mistakes.push_back(std::move(mistake));
    }
  }
  for (const ir::MinimizedLoss& objective : graph.objectives()) {
    if (objective.weight.present() && !same[objective.weight.node]) {
      mistakes.push_back(fmt::format(
          "{}: minimize cannot weigh replays where ranks may weigh them differently\n"
          "  the weight {}\n"
          "  requires   a weight made of constants, counters and what mt::all_reduce or "
          "mt::broadcast gave\n"
          "  way out    .weight = mt::all_reduce(tokens), of mt::weighted_by(loss, tokens)",
          to_string(objective.line),
          value_text(graph, first_that_differs(graph, objective.weight, same))));
    }
    if (objective.optimizer->watches_loss() && !same[objective.loss.node]) {
      mistakes.push_back(fmt::format(
          "{}: {} cannot watch a loss that may differ between ranks\n"
          "  the loss   {}\n"
          "  requires   a loss made of constants, counters and what mt::all_reduce or "
          "mt::broadcast gave\n"
          "  way out    .lr = mt::Settable{{1e-3}}, and set_learning_rate between steps",
          to_string(objective.line), objective.optimizer->name(),
          value_text(graph, first_that_differs(graph, objective.loss, same))));
    }
    if (!objective.when.present() || same[objective.when.node]) continue;
    mistakes.push_back(fmt::format(
        "{}: minimize cannot train where ranks may decide differently whether it does\n"
        "  decided by {}\n"
        "  requires   a decision made of constants, counters and what mt::all_reduce or "
        "mt::broadcast gave\n"
        "  way out    let one of them join what decides",
        to_string(objective.line),
        value_text(graph, first_that_differs(graph, objective.when, same))));
  }
  if (!mistakes.empty()) throw GraphError(std::move(mistakes));
}

}  // namespace metronome::distributed
