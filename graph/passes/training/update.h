#pragma once

#include "graph/builder/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// Before: `parameter_gradients` are there. After it each of those parameters and its moments are
/// assigned what the optimizer makes of them, and the counters advance;
/// `parameter_gradients` is empty. Unchanged in evaluation.
Graph update(const Graph& graph, const Settings& settings);

}  // namespace metronome::passes
