#include "executor/support/device.h"

namespace metronome {

std::string to_string(const Device& device) {
  return device.kind == Device::Kind::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

}  // namespace metronome
