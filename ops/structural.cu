#include "ops/structural_kernels.h"

#include "ops/cuda/device.h"

METRONOME_DEVICE_KERNELS(structural, StructuralKernels)
