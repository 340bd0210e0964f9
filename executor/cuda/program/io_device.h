// The executor's own kernels, compiled ahead for devices.
#pragma once

#include "ops/cuda/device_kernels.h"
#include "ops/kernel/kernel.h"

namespace metronome::cuda {

/// Adds them to a table, a copy of `device_kernels()`.
void add_kernels_io(DeviceKernels& table);

/// The guards of a conditional node's bodies, on the device.
struct Cases {
  static constexpr int kMost = 256;
  const bool* guards[kMost];
  int count;  ///< 1: of an IF node; else of a SWITCH node
};

/// The kernel that gives a conditional node's handle, its first parameter (a
/// cudaGraphConditionalHandle), the index of the first guard of `Cases`, its second, that is true,
/// or `count`; for an IF node 1 where its guard is true, and 0. As the CUDA runtime knows it.
const void* condition_kernel();
inline constexpr KernelShape kConditionShape{.blocks = 1, .threads = kWarp};

}  // namespace metronome::cuda
