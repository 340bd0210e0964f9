// The executor's own kernels, compiled ahead for devices.
#pragma once

#include "ops/cuda/device_kernels.h"

struct CUstream_st;

namespace metronome::cuda {

/// Adds them to a table, a copy of `device_kernels()`.
void add_kernels_io(DeviceKernels& table);

/// Enqueues the kernel that gives a conditional node's handle (a cudaGraphConditionalHandle) what
/// `*guard` on the device says.
void set_condition(unsigned long long handle, const bool* guard, CUstream_st* stream);

}  // namespace metronome::cuda
