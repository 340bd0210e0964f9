// The executor's own kernels, compiled ahead for devices.
#pragma once

#include "ops/cuda/device_kernels.h"

namespace metronome::cuda {

/// Adds them to a table, a copy of `device_kernels()`.
void add_kernels_io(DeviceKernels& table);

}  // namespace metronome::cuda
