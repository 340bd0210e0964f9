#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/plan/recomputation.h"

namespace metronome::passes {

/// A graph, and for each of its nodes the node of the graph before that it is, or is a clone of.
struct GraphWithClones {
  ir::Graph graph;
  std::vector<std::int32_t> origins;
};

/// Computes values again, late, in place of keeping them, as planned. The nodes that run stand in
/// the planned order, so that order needs what the plan says. A clone is the same node, its random
/// key included, on the same numbers: the same bits. It waits for the late nodes whose results are
/// read together with its own, so no order makes it early. After all other passes: equal nodes are
/// not shared again.
GraphWithClones compute_again(const ir::Graph& graph, const plan::Recomputation& planned);

}  // namespace metronome::passes
