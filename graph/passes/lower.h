#pragma once

#include "graph/builder/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// After it no composite is left but those that the target keeps.
Graph lower(const Graph& graph, const Settings& settings);

}  // namespace metronome::passes
