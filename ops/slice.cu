#include "ops/slice_kernels.h"

#include "ops/cuda/device.h"

METRONOME_DEVICE_KERNELS(slice, SliceKernels)
