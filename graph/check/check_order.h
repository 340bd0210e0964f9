// Whether an order makes values before it reads them. It shares no code with the planner.
#pragma once

#include "graph/check/checked_plan.h"

namespace metronome::check {

/// Each node runs once, after those whose values it reads and those that it waits for; those with
/// effects as they were declared. `schedule` has a step for each node.
Mistake check_order(const ir::Graph& graph, const plan::Schedule& schedule);

}  // namespace metronome::check
