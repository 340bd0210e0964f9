#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// Rematerialization (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016). Before:
/// what `differentiate` leaves, gradients behind all that was declared. The forward nodes on and
/// below each path in `settings.recomputed` are a segment; a node of several segments belongs to
/// the first. A segment's value stays as it is if something other than gradients and the segment's
/// own nodes reads it. After the pass, gradients read no other value of a segment: they read clones
/// of the nodes that make it, and the clones read the values that stay.
///
///   x - a - b - y ...... dy - db - da        segment a b, of which y reads b: gradients that read
///        \______________/ \ a'-/             b still do; those that read a read a', after dy
///
/// Clones of a segment wait for the gradients that its first reader reads, so that no order makes
/// them early, and `share` lets them be. They are the same ops, keys of random ones included, and
/// run under the same guards: the same bits. Ops with effects, guards and constants are no part of
/// a segment.
ir::Graph recompute(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
