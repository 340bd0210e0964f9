#include "ops/guarded_kernels.h"

#include "ops/cuda/device.h"

METRONOME_DEVICE_KERNELS(guarded, GuardedKernels)
