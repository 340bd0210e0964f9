#include "models/commands/arguments.h"
#include "models/commands/device.h"

namespace metronome::commands {

DeviceTargets targets_on(const std::string& device, int) {
  if (device == "cpu") return {cpu_replay(), eager()};
  throw UsageError("this program is built without GPUs: start it by ./metronome train");
}

}  // namespace metronome::commands
