#pragma once

#include "graph/graph.h"
#include "graph/passes/settings.h"

namespace metronome {

/// After it every node reaches an output: a readable value, an assignment or the loss.
Graph prune(const Graph& graph, const Settings& settings);

}  // namespace metronome
