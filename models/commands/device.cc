#include "models/commands/device.h"

#include <memory>

#include "executor/metronome/device.h"
#include "graph/ir/error.h"
#include "models/commands/arguments.h"

namespace metronome::commands {
namespace {

std::unique_ptr<CudaDriver> open_device(int index) {
  try {
    return open_cuda(index);
  } catch (const RunError& error) {
    throw NoDeviceError(error.what());
  }
}

}  // namespace

DeviceTargets targets_on(const std::string& device, int index) {
  if (device == "cpu") return {cpu_replay(), eager()};
  DeviceTargets targets{cuda_graph({.device = index}), eager(cuda_device(index))};
  targets.planned.driver = open_device(index);
  return targets;
}

}  // namespace metronome::commands
