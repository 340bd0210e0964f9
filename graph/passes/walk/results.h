// The results of a graph, and the number of uses of each node.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/graph.h"

namespace metronome::passes {

/// f(value) for each result: losses, decisions and gradients of the objectives, values that are
/// read, values that are assigned. A value may come more than once; what is absent is left out.
template <class F>
void for_each_result(const ir::Graph& graph, const F& f) {
  const auto call = [&f](ValueId id) {
    if (id.present()) f(id);
  };
  for (const ir::MinimizedLoss& objective : graph.objectives()) {
    call(objective.loss);
    call(objective.when);
    call(objective.weight);
    for (const ParameterGradient& g : objective.gradients) call(g.value);
  }
  for (const Readable& r : graph.readables()) call(r.value);
  for (const Assignment& a : graph.assignments()) call(a.value);
}

/// [node] How often it is asked for: by operands, guards, those that wait, readers, assignments.
inline std::vector<int> uses_of_nodes(const ir::Graph& graph) {
  std::vector<int> uses(graph.nodes().size());
  const auto use = [&](ValueId id) {
    if (id.present()) ++uses[id.node];
  };
  for (const Node& node : graph.nodes()) {
    for (const ValueId input : node.inputs) use(input);
    use(node.guard);
    for (const std::int32_t before : node.waits_for) ++uses[before];
  }
  for_each_result(graph, use);
  return uses;
}

}  // namespace metronome::passes
