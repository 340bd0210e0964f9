#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// After it no two nodes are equal (same op, same inputs) where one can serve for both: the
/// earlier one, where it runs in every step in which the later one does. Nodes that do not wait for
/// the same nodes are not equal: what is computed twice on purpose stays.
ir::Graph share(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
