#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// Before: composites that are expanded are. After it each op that differs from rank to rank
/// (`OnRankRule`) is as rank `Settings::rank` runs it; gradients, made later, follow.
ir::Graph on_rank(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
