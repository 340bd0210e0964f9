// Whether an order keeps what nodes wait for. It shares no code with the planner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace metronome::check {

/// `step_of` is the step of each node, in an order that makes values before it reads them. Returns
/// the first node that runs before one that it waits for, naming both, or nothing.
std::optional<std::string> check_waits(const ir::Graph& graph,
                                       const std::vector<std::int32_t>& step_of);

}  // namespace metronome::check
