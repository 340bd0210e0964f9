// How linear maps along dimensions (ops/bands/bands.h) are launched.
#pragma once

#include "ops/bands/bands.h"
#include "ops/cuda/launch.h"

namespace metronome {

/// From the only floating operand to the only result.
void record_bands(const BandsOf3& bands, const CudaLaunch& launch);

}  // namespace metronome
