#include "ops/transpose_kernels.h"

#include "ops/cuda/device.h"

METRONOME_DEVICE_KERNELS(transpose, TransposeKernels)
