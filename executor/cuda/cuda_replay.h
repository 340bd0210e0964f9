// `cuda_graph`: one launch a step.
#pragma once

#include <memory>
#include <vector>

#include "executor/cuda/driver.h"
#include "executor/engine.h"
#include "executor/plan.h"
#include "executor/report.h"
#include "executor/target.h"

namespace metronome {

/// Binds, warms up, captures in the forms that may be fastest, compares a replay of each with
/// `stepwise`, bit for bit, times them and keeps the fastest. Storages are as before, whatever
/// happened meanwhile. `report` gains what was measured, taken and kept. `watches`:
/// CompileOptions::watch.
std::unique_ptr<Engine> make_cuda_replay(std::vector<Plan> plans, const Memory& memory,
                                         std::shared_ptr<CudaDriver> driver,
                                         const CudaOptions& options, bool watches, Report& report);

}  // namespace metronome
