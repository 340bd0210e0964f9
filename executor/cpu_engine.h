// The two executors that run Metronome's own kernels: the replay, and the same kernels one by one.
#pragma once

#include <memory>
#include <vector>

#include "executor/engine.h"
#include "executor/plan.h"

namespace metronome {

/// `cpu_replay`: a flat array of {function, arguments} over one arena that the plans share. With
/// `poison`, bytes of the arena that hold no live value are filled with NaN after each kernel.
std::unique_ptr<Engine> make_cpu_replay(std::vector<Plan> plans, const Memory& memory, bool poison);

/// `stepwise`: the same kernels in the same order, each value in fresh memory of its own at the
/// same address modulo 64, assignments copied at the end of the step.
std::unique_ptr<Engine> make_stepwise(std::vector<Plan> plans, const Memory& memory);

}  // namespace metronome
