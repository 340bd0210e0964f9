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

void set_condition(unsigned long long handle, const Cases& cases, CUstream_st* stream) {
  set_condition_entry<<<1, kWarp, 0, stream>>>(handle, cases);
}

}  // namespace metronome::cuda
