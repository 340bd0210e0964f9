#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// Where a sum adds many results of one op (the gradient of a weight that many steps of a loop
/// share), computes them as one node over their operands stacked, as the op's rule `gathered` says.
/// The operands of all steps are then kept until the last one is made; so what has an operand that
/// waits, as what is made again (`recompute`) does, is not gathered. Sums under guards stay as they
/// are. Without `settings.gathers` it does nothing.
ir::Graph gather(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
