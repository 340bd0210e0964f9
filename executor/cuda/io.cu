#include "executor/cuda/io_device.h"
#include "executor/cuda/io_kernels.h"
#include "ops/cuda/device.h"

METRONOME_DEVICE_KERNELS(io, IoKernels)
