// From a declared graph to its plan: the table of passes, kernels, order and memory.
#pragma once

#include <cstddef>
#include <string>

#include "executor/compile/select.h"
#include "executor/engine/kernels.h"
#include "executor/engine/plan.h"
#include "executor/engine/report.h"
#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::executor::compile {

/// One of the graphs that are compiled together.
struct Declared {
  const ir::Graph& graph;
  std::size_t shape = 0;   ///< its place among them
  std::string batch = {};  ///< "x [256, 64], target [256, 64]"; empty where it is alone
};

/// The declared graph after all passes of one mode, verified after each.
ir::Graph run_passes(const Declared& declared, const Settings& settings, PlanReport& plan,
                     Report& report);

/// The passes, the choice of kernels, order and offsets for one mode; `report` gains the choices
/// and the parameters that the loss does not reach.
Plan make_plan(const Declared& declared, const Settings& settings, const Kernels& kernels,
               const SelectOptions& options, Report& report);

}  // namespace metronome::executor::compile
