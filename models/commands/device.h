// The device that `train` runs on.
#pragma once

#include <string>

#include "executor/metronome.h"

namespace metronome::commands {

struct DeviceTargets {
  Target planned;
  Target eager;
};

/// Targets on `device`: "cpu", or "cuda": the GPU of that number, which is opened. Those of the
/// program that it is linked into: device.cc, or no_device.cc, which refuses GPUs: `./metronome
/// train` builds in less time without. Throws NoDeviceError with the driver's own sentence where
/// there is no such GPU.
DeviceTargets targets_on(const std::string& device, int index);

}  // namespace metronome::commands
