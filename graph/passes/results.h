// What a graph is computed for.
#pragma once

#include "graph/ir/graph.h"

namespace metronome::passes {

/// f(value) for each result: losses and gradients of the objectives, values that are read, values
/// that are assigned. A value may come more than once; what is absent is left out.
template <class F>
void for_each_result(const ir::Graph& graph, const F& f) {
  const auto call = [&f](ValueId id) {
    if (id.present()) f(id);
  };
  for (const ir::Objective& objective : graph.objectives()) {
    call(objective.loss);
    for (const ParameterGradient& g : objective.gradients) call(g.value);
  }
  for (const Readable& r : graph.readables()) call(r.value);
  for (const Assignment& a : graph.assignments()) call(a.value);
}

}  // namespace metronome::passes
