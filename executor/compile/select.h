// The choice of the kernel that runs each node.
#pragma once

#include <vector>

#include "executor/engine/kernels.h"
#include "executor/engine/report.h"
#include "executor/options/target.h"
#include "graph/ir/graph.h"
#include "ops/rules/candidate.h"

namespace metronome::executor::compile {

/// One choice per node of the graph (empty for nodes without a kernel): the preferred maker's
/// candidate where there is one, else the tuning file's entry, else the fastest candidate timed on
/// scratch memory (where there is room), else the op's fixed rule, as far as `options.tune` allows.
/// Each distinct (op, types) is decided once. New timings are added to the tuning file
/// (`options.tuning_file`; empty: none); one that cannot be written is a warning.
/// `report` gains one line per decision among several candidates: "... -> mkl (timed)"; "(timed by
/// launches)" where a device's commands could not be captured, so that the host's part is in it.
/// `plan` gains the same with all candidates.
std::vector<Candidate> select(const ir::Graph& graph, const Kernels& kernels,
                              const CompileOptions& options, PlanReport& plan, Report& report);

}  // namespace metronome::executor::compile
