// Which kernel runs each node.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "executor/report.h"
#include "executor/target.h"
#include "graph/graph.h"
#include "ops/cpu/launch.h"

namespace metronome {

struct SelectOptions {
  int threads = 1;
  Tune tune = Tune::measure;
  std::string tuning_file;
};

/// One choice per node of the graph (empty for nodes without a kernel): the tuning file's entry,
/// else the fastest candidate timed on scratch memory, else the op's fixed rule. Each distinct (op,
/// types) is decided once. New timings are added to the tuning file; one that
/// cannot be written is a warning. `report` gains one line per
/// decision among several candidates.
std::vector<CpuCandidate> select(const Graph& graph, const SelectOptions& options, Report& report);

}  // namespace metronome
