// The choice between plain tensors and the layouts that a back end's ops want: channels last for
// images.
#pragma once

#include "executor/engine/backend.h"
#include "executor/engine/kernels.h"
#include "executor/engine/report.h"
#include "executor/options/target.h"
#include "graph/ir/graph.h"

namespace metronome::executor::compile {

/// Whether an op of the graph that wants a layout is large enough to find out.
bool wants_layouts(const ir::Graph& graph, const LayoutWishes& wishes);

/// Whether a step is faster as `laid_out` than as `plain`, both after all passes: by the tuning
/// file's entry, else by the times of the kernels in which the two differ, of which those of
/// `laid_out` must take 3 % less. False where nothing may be timed. `report` and `plan` gain both
/// times; the tuning file keeps the choice, so that other processes, and other ranks, make the
/// same.
bool prefers_layouts(const ir::Graph& plain, const ir::Graph& laid_out, const Kernels& kernels,
                     const CompileOptions& options, PlanReport& plan, Report& report);

}  // namespace metronome::executor::compile
