#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// Before: every node reaches an output (`prune`), as each reader counts, needed or not. After it
/// the same values are made by fewer nodes, rounding apart.
///
/// If an op's only reader can be computed by the op itself (its `absorb` rule: a matrix product
/// that adds to what is there), one node takes the place of both, where the reader stood, and waits
/// for what both waited for. An op that another node waits for stays where it is.
ir::Graph absorb(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
