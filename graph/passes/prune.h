#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// After it every node reaches an output: a readable value, an assignment or the loss. No storage
/// is assigned what it holds: such an assignment is dropped, as it would be a copy. That others
/// wait for a node does not keep it: they wait for what it waited for.
ir::Graph prune(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
