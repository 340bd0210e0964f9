// The checker of orders and memory plans. It shares no code with the planner.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"
#include "graph/plan/memory_plan.h"
#include "graph/plan/schedule.h"

namespace metronome::check {

/// Checks a schedule and a plan, knowing nothing of the planner: derives lifetimes, views and
/// rights to overwrite itself, from the graph and the order. Returns the first fault, naming the
/// two values that clash, or nothing.
std::optional<std::string> check_plan(const ir::Graph& graph, const plan::Schedule& schedule,
                                      const std::vector<std::size_t>& scratch_bytes,
                                      const plan::MemoryPlan& plan, const Settings& settings);

}  // namespace metronome::check
