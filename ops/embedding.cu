#include "ops/embedding_kernels.h"

#include "ops/cuda/device.h"

METRONOME_DEVICE_KERNELS(embedding, EmbeddingKernels)
