// Compiles a list of kernels for devices: `METRONOME_DEVICE_KERNELS(softmax, SoftmaxKernels)` is
// all that the source says which the build makes for softmax_kernels.h. Only for nvcc.
#pragma once

#include <typeinfo>

#include "ops/cuda/device_kernels.h"
#include "ops/kernel/bound.h"
#include "ops/kernel/context.h"
#include "ops/kernel/kernel.h"

namespace metronome::cuda {

/// Arguments stay in the constant bank (`__grid_constant__`), also where a body indexes an array of
/// them. Registers suffice for the largest block that rules may ask for, so that no shape can fail
/// to launch; one block a multiprocessor is enough: asked for no number, the assembler spills
/// registers to make room for more of them.
template <class Kernel>
__global__ void __launch_bounds__(most_threads<Kernel>(), 1)
    entry(const __grid_constant__ Kernel kernel) {
  begin_in_order();
  DeviceContext context;
  kernel(context);
}

template <class... Kernels>
void add_kernels(DeviceKernels& table, KernelList<Kernels...>) {
  (table.add(typeid(Kernels), reinterpret_cast<const void*>(&entry<Kernels>)), ...);
}

}  // namespace metronome::cuda

/// Compiles `List`, a KernelList of metronome::cuda, and defines
/// `void metronome::cuda::add_kernels_STEM(DeviceKernels&)`, which adds its kernels to a table.
#define METRONOME_DEVICE_KERNELS(stem, List)                                    \
  namespace metronome::cuda {                                                   \
  void add_kernels_##stem(DeviceKernels& table) { add_kernels(table, List{}); } \
  }
