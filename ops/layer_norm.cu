#include "ops/layer_norm_kernels.h"

#include "ops/cuda/device.h"

METRONOME_DEVICE_KERNELS(layer_norm, LayerNormKernels)
