#include "ops/route_kernels.h"

#include "ops/cuda/device.h"

METRONOME_DEVICE_KERNELS(route, RouteKernels)
