#include "ops/softmax_kernels.h"

#include "ops/cuda/device.h"

METRONOME_DEVICE_KERNELS(softmax, SoftmaxKernels)
