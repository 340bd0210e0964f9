#include "ops/reduce_kernels.h"

#include "ops/cuda/device.h"

METRONOME_DEVICE_KERNELS(reduce, ReduceKernels)
