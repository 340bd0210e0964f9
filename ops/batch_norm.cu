#include "ops/batch_norm_kernels.h"

#include "ops/cuda/device.h"

METRONOME_DEVICE_KERNELS(batch_norm, BatchNormKernels)
