#include "executor/cuda/io_device.h"
#include "executor/cuda/io_kernels.h"
#include "ops/cuda/device.h"

METRONOME_DEVICE_KERNELS(io, IoKernels)

namespace metronome::cuda {
namespace {

__global__ void set_condition_entry(cudaGraphConditionalHandle handle, const bool* guard) {
  cudaGraphSetConditional(handle, *guard ? 1 : 0);
}

}  // namespace

void set_condition(unsigned long long handle, const bool* guard, CUstream_st* stream) {
  set_condition_entry<<<1, 1, 0, stream>>>(handle, guard);
}

}  // namespace metronome::cuda
