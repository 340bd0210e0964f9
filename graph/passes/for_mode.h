#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// The graph of one mode. After it, in evaluation: ops with an evaluation form have taken it, and
/// there are no gradients and numbers of the update, nothing that is made of them, and no
/// assignments, but for those of states in Mode::advance. In training the graph is unchanged. A
/// form waits, and is waited for, as the op was.
ir::Graph for_mode(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
