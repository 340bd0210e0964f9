#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// Before: sums are trees of `Accumulate`, as `differentiate` leaves them. After it old addends are
/// left for `prune`, and values are the same, rounding apart.
///
/// If a sum adds many results of one op (the gradient of a weight that many steps of a loop share),
/// the pass computes them as one node over their operands stacked, as the op's rule `gather`
/// says. The operands of all steps are then kept until the last one is made; so a result is not
/// gathered if one of its operands waits, as values do that are computed again (`recompute`). Sums
/// under guards stay as they are. Without `settings.gathers` it does nothing.
ir::Graph gather(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
