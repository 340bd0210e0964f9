#include "ops/optimizer_updates_kernels.h"

#include "ops/cuda/device.h"

METRONOME_DEVICE_KERNELS(optimizer_updates, OptimizerUpdatesKernels)
