// The GPU that verbs run on.
#pragma once

#include <memory>

#include "executor/metronome/device.h"

namespace metronome::commands {

/// The first one. Throws NoDevice with the driver's own sentence on why there is none.
std::unique_ptr<CudaDriver> open_device();

}  // namespace metronome::commands
