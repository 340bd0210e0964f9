#include "graph/passes/absorb.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/passes/walk/copier.h"
#include "graph/passes/walk/results.h"
#include "graph/rules/absorb.h"

namespace metronome::passes {
namespace {

std::vector<std::int32_t> both_waits(const Node& a, const Node& b) {
  std::vector<std::int32_t> waits;
  std::ranges::set_union(a.waits_for, b.waits_for, std::back_inserter(waits));
  return waits;
}

/// The graph's nodes, as some take in those that they read.
class Absorber {
 public:
  explicit Absorber(const ir::Graph& graph)
      : graph_(graph), uses_(uses_of_nodes(graph)), gone_(graph.nodes().size()) {
    const auto count = static_cast<std::int32_t>(graph.nodes().size());
    for (std::int32_t i = 0; i < count; ++i) absorb_operand(i);
  }

  bool any() const { return !changed_.empty(); }
  bool is_absorbed(std::int32_t node) const { return gone_[node]; }
  /// The node with what it has taken in; null where that is nothing.
  const Node* find_changed(std::int32_t node) const {
    const auto found = changed_.find(node);
    return found == changed_.end() ? nullptr : &found->second;
  }

 private:
  /// The last operand that can: of a sum of products the first is made, the others are added.
  void absorb_operand(std::int32_t at) {
    const Node& reader = graph_.nodes()[at];
    for (std::size_t i = reader.inputs.size(); i-- > 0;) {
      const std::int32_t index = reader.inputs[i].node;
      const Node& made =
          find_changed(index) != nullptr ? *find_changed(index) : graph_.nodes()[index];
      if (made.types.size() != 1 || uses_[index] != 1 || made.guard != reader.guard) continue;
      OpPtr both = made.op->ask<AbsorbRule>(*reader.op, i);
      if (both == nullptr) continue;
      std::vector<ValueId> inputs = made.inputs;
      for (std::size_t k = 0; k < reader.inputs.size(); ++k) {
        if (k != i) inputs.push_back(reader.inputs[k]);
      }
      Node whole = reader;
      whole.op = std::move(both);
      whole.inputs = std::move(inputs);
      whole.waits_for = both_waits(made, reader);
      whole.path = made.path;  // what costs time names the node
      whole.line = made.line;
      changed_.emplace(at, std::move(whole));
      gone_[index] = true;
      return;
    }
  }

  const ir::Graph& graph_;
  std::unordered_map<std::int32_t, Node> changed_;
  std::vector<int> uses_;
  std::vector<bool> gone_;
};

}  // namespace

ir::Graph absorb(ir::Graph graph, const Settings&) {
  const Absorber absorber(graph);
  if (!absorber.any()) return graph;
  Copier copier(graph);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    if (absorber.is_absorbed(i)) continue;
    if (const Node* changed = absorber.find_changed(i)) {
      copier.append(i, *changed);
    } else {
      copier.copy(i);
    }
  }
  return copier.finish();
}

}  // namespace metronome::passes
