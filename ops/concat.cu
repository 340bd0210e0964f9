#include "ops/concat_kernels.h"

#include "ops/cuda/device.h"

METRONOME_DEVICE_KERNELS(concat, ConcatKernels)
