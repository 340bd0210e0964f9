// The plan of one mode: everything that is decided before the first step.
#pragma once

#include <cstddef>
#include <vector>

#include "executor/report.h"
#include "executor/select.h"
#include "graph/graph.h"
#include "graph/memory_plan.h"
#include "graph/passes/settings.h"
#include "graph/schedule.h"

namespace metronome {

struct Plan {
  Mode mode = Mode::train;
  Graph graph;                     ///< after all passes
  std::vector<Candidate> choices;  ///< per node; what runs it
  Schedule schedule;
  std::vector<std::size_t> scratch_bytes;  ///< per node
  MemoryPlan memory;
  PlanReport report;
};

/// True for a node that runs a kernel: neither an input, nor a storage's value, nor a view.
bool has_kernel(const Graph& graph, const Node& node);

/// The passes, the choice of kernels, order and offsets for one mode; `report` gains the choices
/// and the parameters that the loss does not reach.
Plan make_plan(const Graph& declared, const Settings& settings, const Kernels& kernels,
               const SelectOptions& options, Report& report);

}  // namespace metronome
