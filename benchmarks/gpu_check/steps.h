// Steps of executables on a device, taken side by side.
#pragma once

#include <cstdint>
#include <string>

#include "benchmarks/batches.h"
#include "models/models.h"

namespace metronome::gpu_check {

/// The first storage whose bytes differ, or "".
std::string different_storage(const Executable& a, const Executable& b);

/// Takes `steps` steps with both, losses read, and gives the first difference in any bit: the loss
/// of a step, or a storage after the last one; "" where there is none.
std::string different_steps(Executable& a, Executable& b, const models::Model& model, int steps);

/// Batch norm, dropout, a learning rate that warms up and falls, and clipping: whatever must not
/// freeze when a step is captured. x f32 [32, 48], target f32 [32, 16].
models::Model everything_moves();

}  // namespace metronome::gpu_check
