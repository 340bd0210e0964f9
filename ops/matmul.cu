#include "ops/matmul_kernels.h"

#include "ops/cuda/device.h"

METRONOME_DEVICE_KERNELS(matmul, MatmulKernels)
