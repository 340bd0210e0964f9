#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// After it identities are applied (x * 1, x + 0, a view of a view) and what depends on constants
/// alone is a constant, as far as that makes it no larger than its operands. A node that waits is
/// left as it is; a node that others wait for may fold, and they wait for what it has become.
ir::Graph fold(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
