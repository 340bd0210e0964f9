// The GPU that verbs run on.
#pragma once

#include <memory>

#include "executor/metronome/device.h"

namespace metronome::commands {

/// Numbered from 0. Throws NoDevice with the driver's own sentence on why there is none.
std::unique_ptr<CudaDriver> open_device(int index = 0);

}  // namespace metronome::commands
