// Whether all ranks are about to run the same steps.
#pragma once

#include <span>
#include <string>

#include "distributed/collectives/communicator.h"
#include "executor/engine/plan.h"
#include "graph/ir/graph.h"

namespace metronome::distributed {

/// Returns the text that must be equal on all ranks: for each declared graph its nodes, a line
/// each, and for each plan its collectives in their order, with their kinds, types, bytes and
/// regions.
std::string steps_of(std::span<const ir::Graph* const> declared,
                     std::span<const executor::Plan> plans);

/// Throws RunError on all ranks, with the first line that differs and the ranks that say it, unless
/// all say the same.
void require_same_steps(Communicator& ranks, const std::string& graph, const std::string& steps);

}  // namespace metronome::distributed
