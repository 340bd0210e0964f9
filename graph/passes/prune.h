#pragma once

#include "graph/builder/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// After it every node reaches an output: a readable value, an assignment or the loss.
Graph prune(const Graph& graph, const Settings& settings);

}  // namespace metronome::passes
