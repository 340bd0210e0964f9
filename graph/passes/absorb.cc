#include "graph/passes/absorb.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "graph/passes/copier.h"

namespace metronome::passes {
namespace {

/// [node] How often it is asked for: by operands, guards, those that wait, readers, assignments.
std::vector<int> uses_of_nodes(const ir::Graph& graph) {
  std::vector<int> uses(graph.nodes().size());
  const auto use = [&](ValueId id) {
    if (id.present()) ++uses[id.node];
  };
  for (const Node& node : graph.nodes()) {
    for (const ValueId input : node.inputs) use(input);
    use(node.guard);
    for (const std::int32_t before : node.waits_for) ++uses[before];
  }
  for (const ir::Objective& objective : graph.objectives()) {
    use(objective.loss);
    for (const ParameterGradient& g : objective.gradients) use(g.value);
  }
  for (const Readable& r : graph.readables()) use(r.value);
  for (const Assignment& a : graph.assignments()) use(a.value);
  return uses;
}

std::vector<std::int32_t> both_waits(const Node& a, const Node& b) {
  std::vector<std::int32_t> waits;
  std::ranges::set_union(a.waits_for, b.waits_for, std::back_inserter(waits));
  return waits;
}

/// The graph's nodes, as some take in those that they read.
class Absorber {
 public:
  explicit Absorber(const ir::Graph& graph)
      : nodes_(graph.nodes().begin(), graph.nodes().end()),
        uses_(uses_of_nodes(graph)),
        gone_(nodes_.size()) {
    for (Node& node : nodes_) absorb_operand(node);
  }

  bool gone(std::int32_t node) const { return gone_[node]; }
  const Node& node(std::int32_t node) const { return nodes_[node]; }

 private:
  /// The last operand that can: of a sum of products the first is made, the others are added.
  void absorb_operand(Node& reader) {
    for (std::size_t i = reader.inputs.size(); i-- > 0;) {
      const std::int32_t index = reader.inputs[i].node;
      const Node& made = nodes_[index];
      if (made.types.size() != 1 || uses_[index] != 1 || made.guard != reader.guard) continue;
      OpPtr both = made.op->absorb(*reader.op, i);
      if (both == nullptr) continue;
      std::vector<ValueId> inputs = made.inputs;
      for (std::size_t k = 0; k < reader.inputs.size(); ++k) {
        if (k != i) inputs.push_back(reader.inputs[k]);
      }
      reader.op = std::move(both);
      reader.inputs = std::move(inputs);
      reader.waits_for = both_waits(made, reader);
      reader.path = made.path;  // what costs time names the node
      reader.line = made.line;
      gone_[index] = true;
      return;
    }
  }

  std::vector<Node> nodes_;
  std::vector<int> uses_;
  std::vector<bool> gone_;
};

}  // namespace

ir::Graph absorb(const ir::Graph& graph, const Settings&) {
  const Absorber absorber(graph);
  Copier copier(graph);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    if (!absorber.gone(i)) copier.append(i, absorber.node(i));
  }
  return copier.finish();
}

}  // namespace metronome::passes
