// A memory plan as text: the language of its tests.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/plan/memory_plan.h"
#include "graph/plan/schedule.h"

namespace metronome::plan {

/// The plan as text, one line a step: what it makes and the bytes it takes; the tests' language.
std::string print(const ir::Graph& graph, const Schedule& schedule,
                  const std::vector<std::size_t>& scratch_bytes, const MemoryPlan& plan);

}  // namespace metronome::plan
