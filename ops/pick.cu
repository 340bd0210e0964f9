#include "ops/pick_kernels.h"

#include "ops/cuda/device.h"

METRONOME_DEVICE_KERNELS(pick, PickKernels)
