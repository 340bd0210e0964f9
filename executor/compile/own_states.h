// States of several graphs that are compiled together.
#pragma once

#include <span>

#include "graph/ir/graph.h"

namespace metronome::executor::compile {

/// A state that graphs declare with several shapes, as one that samples at batch 1 does, gets
/// memory for each: where its shape is not that of the first graph that has it, its path becomes
/// "h[1, 64]".
void name_own_states(std::span<ir::Graph> graphs);

}  // namespace metronome::executor::compile
