#pragma once

#include <span>

#include "graph/ir/graph.h"

namespace metronome::passes {

/// A node that runs in every step, and whose results are read under one of the guards alone, runs
/// under that guard, too. `guards`: results of Guard nodes, of which a later one may imply an
/// earlier one. Nodes that communicate stay, and so do those of other regions.
ir::Graph sink(const ir::Graph& graph, std::span<const ValueId> guards);

}  // namespace metronome::passes
