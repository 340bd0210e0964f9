// From a graph to the order of its nodes and a place for every value.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"
#include "graph/plan/memory_plan.h"
#include "graph/plan/schedule.h"

namespace metronome::plan {

/// Offsets from a portfolio of greedy placements and bounded searches; stops within 1 % of the
/// bytes held at the fullest moment (`near_peak`); deterministic. `scratch_bytes` has one entry per
/// node (bytes that the chosen kernel needs while it runs), or is empty. Throws InternalError if a
/// readable or assigned value is an input or a storage's old value, or a view of one: `materialize`
/// puts a copy there.
MemoryPlan plan_memory(const ir::Graph& graph, const Schedule& schedule,
                       const std::vector<std::size_t>& scratch_bytes, const Settings& settings);

/// An order and its memory.
struct StepPlan {
  Schedule schedule;
  MemoryPlan memory;
};

/// Returns the plan that takes the fewest bytes, of those of all `schedules`: if blocks of several
/// guards share bytes, the order of the lowest bound need not be the one that can be laid out best.
StepPlan plan_step(const ir::Graph& graph, const std::vector<std::size_t>& scratch_bytes,
                   const Settings& settings);

}  // namespace metronome::plan
