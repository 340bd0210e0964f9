#pragma once

#include "graph/graph.h"
#include "graph/passes/settings.h"

namespace metronome {

/// After it no composite is left but those that the target keeps.
Graph lower(const Graph& graph, const Settings& settings);

}  // namespace metronome
