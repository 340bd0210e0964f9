// `cuda_graph`: one launch a step.
#pragma once

#include <memory>
#include <vector>

#include "executor/cuda/driver/driver.h"
#include "executor/engine/engine.h"
#include "executor/engine/plan.h"
#include "executor/engine/ranks.h"
#include "executor/engine/report.h"
#include "executor/options/target.h"
#include "ops/cuda/table.h"

namespace metronome::executor::capture {

/// Binds, warms up, captures in the forms that may be fastest, compares a replay of each with
/// `stepwise`, bit for bit, times them and keeps the fastest. Storages are as before, whatever
/// happened meanwhile. Kernels are those of `table`. `report` gains what was measured, taken and
/// kept. `watches`: CompileOptions::watch. `ranks`: those that run the steps together, or null; all
/// of them keep the form that is the fastest on rank 0.
std::unique_ptr<Engine> make_cuda_replay(std::vector<Plan> plans, const Memory& memory,
                                         std::shared_ptr<CudaDriver> driver, const CudaTable& table,
                                         const CudaOptions& options, bool watches,
                                         const Ranks* ranks, Report& report);

}  // namespace metronome::executor::capture
