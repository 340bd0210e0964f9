#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// After it no composite is left but those that the target keeps.
ir::Graph lower(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
