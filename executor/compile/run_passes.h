// The table of passes: from a declared graph to the step that is planned.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "executor/engine/report.h"
#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::executor::compile {

/// One of the graphs that are compiled together.
struct PlanInput {
  const ir::Graph& graph;
  std::size_t shape = 0;         ///< its place among them
  std::string batch = {};        ///< "x [256, 64], target [256, 64]"; empty where it is alone
  std::string average = {};      ///< the averages that it has in the place of parameters, if any
  bool parameters_stay = false;  ///< no graph compiled with it changes a parameter
  /// By path, how plans made before keep storages.
  std::map<std::string, Layout> kept = {};
  /// `Settings::averages`.
  std::optional<MeanOps> averages = {};
};

/// The declared graph after those passes of one mode that come before any that reads
/// `Settings::buckets`, verified after each. With METRONOME_DUMP=FOLDER the graph after each pass
/// is kept there; METRONOME_WITHOUT=gather,share leaves passes out that are there for speed alone,
/// and keep_whole expands what could run whole (RunError where it names another). `plan` gains the
/// kernels that were declared, `report` the parameters that the loss does not reach; `plan` also
/// what each pass changed.
ir::Graph begin_passes(const PlanInput& declared, const Settings& settings, PlanReport& plan,
                       Report& report);

/// That graph after the passes that are left: the step that is planned.
ir::Graph end_passes(ir::Graph begun, const PlanInput& declared, const Settings& settings,
                     PlanReport& plan);

/// Those of the passes that are of ops alone: for a graph that is no step of its own.
ir::Graph run_passes_of_ops(ir::Graph graph, const Settings& settings);

}  // namespace metronome::executor::compile
