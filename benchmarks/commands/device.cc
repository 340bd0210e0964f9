#include "benchmarks/commands/device.h"

#include "benchmarks/gpu_check/place.h"
#include "graph/ir/error.h"
#include "models/commands/arguments.h"
#include "models/commands/device.h"

namespace metronome::commands {

std::unique_ptr<CudaDriver> open_device(int index) {
  try {
    return open_cuda(index);
  } catch (const RunError& error) {
    throw NoDeviceError(error.what());
  }
}

DeviceTargets targets_on(const std::string& device, int index) {
  if (device == "cpu") return {cpu_replay(), eager()};
  DeviceTargets targets{gpu_check::place_on_device(cuda_graph({.device = index})),
                        gpu_check::place_on_device(eager(cuda_device(index)))};
  targets.planned.driver = open_device(index);
  return targets;
}

}  // namespace metronome::commands
