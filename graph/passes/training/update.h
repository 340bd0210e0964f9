#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// Before: objectives have their gradients. After it each of those parameters and its moments are
/// assigned what the optimizer makes of them, the counters advance, and no objective has gradients
/// left; nothing stands for what training makes any more, and what is made of it comes last.
/// Unchanged in evaluation.
ir::Graph update(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
