// Whether all ranks run the same collectives in each step.
#pragma once

#include "graph/ir/graph.h"

namespace metronome::distributed {

/// Throws GraphError for collectives in regions of which data decide, unless all ranks decide the
/// same by construction: what decides is made of constants, counters, and results of collectives
/// that give all ranks the same. Inputs, parameters and states may differ from rank to rank, and so
/// may what is drawn at random.
void require_same_decisions(const ir::Graph& graph);

}  // namespace metronome::distributed
