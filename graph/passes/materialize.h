#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// After it no readable and no assigned value is the memory of an input or of a storage (or a view
/// of it), and no two assignments name one value: a `copy` stands between. The planner relies on
/// it.
ir::Graph materialize(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
