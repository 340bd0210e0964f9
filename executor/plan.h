// The plan of one mode and batch shape: everything that is decided before the first step.
#pragma once

#include <cstddef>
#include <string>
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
  std::size_t shape = 0;           ///< which of the declared graphs it is of
  Graph graph;                     ///< after all passes
  std::vector<Candidate> choices;  ///< per node; what runs it
  Schedule schedule;
  std::vector<std::size_t> scratch_bytes;  ///< per node
  MemoryPlan memory;
  PlanReport report;
};

/// True for a node that runs a kernel: neither an input, nor a storage's value, nor a view.
bool has_kernel(const Graph& graph, const Node& node);

/// "layer_norm \"tower/0/layer_norm\" (tower.cc:50)".
std::string describe(const Node& node);

/// One of the graphs that are compiled together.
struct Declared {
  const Graph& graph;
  std::size_t shape = 0;   ///< its place among them
  std::string batch = {};  ///< "x [256, 64], target [256, 64]"; empty where it is alone
};

/// The passes, the choice of kernels, order and offsets for one mode; `report` gains the choices
/// and the parameters that the loss does not reach.
Plan make_plan(const Declared& declared, const Settings& settings, const Kernels& kernels,
               const SelectOptions& options, Report& report);

}  // namespace metronome
