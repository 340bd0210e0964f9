#include "executor/cuda/program/io_device.h"
#include "executor/cuda/program/io_kernels.h"
#include "ops/cuda/device.h"

METRONOME_DEVICE_KERNELS(io, IoKernels)

namespace metronome::cuda {
namespace {

__global__ void set_condition_entry(cudaGraphConditionalHandle handle,
                                    const __grid_constant__ Cases cases) {
  DeviceContext context;
  const int chosen = first_true(context, cases.guards, cases.count);
  if (context.thread() > 0) return;
  cudaGraphSetConditional(handle, cases.count == 1 ? 1 - chosen : chosen);
}

}  // namespace

const void* condition_kernel() { return reinterpret_cast<const void*>(&set_condition_entry); }

}  // namespace metronome::cuda
