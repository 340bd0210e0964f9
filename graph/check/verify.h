#pragma once

#include <string_view>

#include "graph/ir/graph.h"

namespace metronome::check {

/// Checks what must hold between any two passes: inputs come earlier and exist, types are what the
/// shape rules say, guards are boolean scalars that every step computes, no value is read in a step
/// that did not compute it, branches that merge exclude each other, each storage has at most one
/// assignment, of its type, readable values exist, and nodes wait for earlier ones alone. Throws
/// InternalError naming `pass` and the node.
void verify(const ir::Graph& graph, std::string_view pass);

}  // namespace metronome::check
