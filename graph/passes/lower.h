#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// After it no composite is left but those that the target keeps. All that a composite becomes
/// waits for what it waited for; who waited for it waits for what makes its results.
ir::Graph lower(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
