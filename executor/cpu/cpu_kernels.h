// What the choice of kernels asks of the CPU's.
#pragma once

#include <memory>

#include "executor/engine/kernels.h"

namespace metronome::executor::cpu {

/// The CPU's kernels, on at most so many threads.
std::unique_ptr<Kernels> cpu_kernels(int threads);

}  // namespace metronome::executor::cpu
