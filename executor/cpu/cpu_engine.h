// The two executors that run Metronome's own kernels: the replay, and the same kernels one by one.
#pragma once

#include <memory>
#include <vector>

#include "executor/engine/engine.h"
#include "executor/engine/observer.h"
#include "executor/engine/plan.h"
#include "ops/cpu/table.h"

namespace metronome::executor::cpu {

/// Checks beside a step's kernels: the CompileOptions of the same names.
struct CpuChecks {
  bool poison = false;  ///< bytes of the arena that hold no live value get NaN after each kernel
  bool watch = false;   ///< numbers that are not finite are looked for
};

struct StepwiseChecks {
  bool watch = false;
  std::shared_ptr<Observer> observer = {};
};

/// `cpu_replay`: a flat array of {function, arguments} over one arena that the plans share. Both
/// engines bind kernels of `table` and do not keep it.
std::unique_ptr<Engine> make_cpu_replay(std::vector<Plan> plans, const Memory& memory,
                                        const CpuTable& table, const CpuChecks& checks);

/// `stepwise`: the same kernels in the same order, each value in fresh memory of its own at the
/// same address modulo 64, assignments copied at the end of the step.
std::unique_ptr<Engine> make_stepwise(std::vector<Plan> plans, const Memory& memory,
                                      const CpuTable& table, const StepwiseChecks& checks);

}  // namespace metronome::executor::cpu
