// The gradients that `differentiate` found.
#pragma once

#include <vector>

#include "graph/ir/graph.h"

namespace metronome {

/// The gradients of a graph's parameters, of one objective after the other.
inline std::vector<ParameterGradient> parameter_gradients(const ir::Graph& graph) {
  std::vector<ParameterGradient> all;
  for (const ir::MinimizedLoss& objective : graph.objectives()) {
    all.insert(all.end(), objective.gradients.begin(), objective.gradients.end());
  }
  return all;
}

}  // namespace metronome
