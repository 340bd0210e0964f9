// The plan of one mode and batch shape: everything that is decided before the first step.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "executor/engine/report.h"
#include "graph/ir/graph.h"
#include "graph/ir/settings.h"
#include "graph/plan/memory_plan.h"
#include "graph/plan/schedule.h"
#include "ops/rules/candidate.h"

namespace metronome::executor {

struct Plan {
  Mode mode = Mode::train;
  std::size_t shape = 0;           ///< which of the declared graphs it is of
  std::string average = {};        ///< which averages it has in the place of parameters, if any
  ir::Graph graph;                 ///< after all passes
  std::vector<Candidate> choices;  ///< per node; what runs it
  plan::Schedule schedule;
  std::vector<std::size_t> scratch_bytes;  ///< per node
  plan::MemoryPlan memory;
  PlanReport report;
};

}  // namespace metronome::executor
