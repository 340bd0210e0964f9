#include "executor/cuda/runtime/refusal.h"

#include <fmt/format.h>

namespace metronome::executor::runtime {
namespace {

constexpr int kCuda = 13000;            // what this program is built for
constexpr int kCapability = 8;          // the oldest devices that kernels are compiled for
constexpr const char* kDriver = "580";  // the first driver that serves CUDA 13.0

/// 13000: "13.0".
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

std::string refusal(const FoundDevices& found, int index) {
  const std::string hidden =
      found.visible ? fmt::format(" (CUDA_VISIBLE_DEVICES={})", *found.visible) : "";
  if (found.driver == 0) {
    return fmt::format("this machine has no NVIDIA driver; CUDA needs driver {} or newer", kDriver);
  }
  if (found.driver < kCuda) {
    return fmt::format(
        "the NVIDIA driver is too old: it serves CUDA {}, and CUDA {} is needed; install driver {} "
        "or newer",
        version_text(found.driver), version_text(kCuda), kDriver);
  }
  if (!found.error.empty()) {
    return fmt::format("the NVIDIA driver does not work: {}{}", found.error, hidden);
  }
  if (found.count == 0) {
    return fmt::format("this machine has no CUDA device that the driver shows{}", hidden);
  }
  if (index < 0 || index >= found.count) {
    return fmt::format("there is no CUDA device {}: the driver shows {}, numbered from 0{}", index,
                       found.count, hidden);
  }
  if (found.major < kCapability) {
    return fmt::format(
        "CUDA device {} ({}) has compute capability {}.{}, and {}.0 or newer is needed", index,
        found.name, found.major, found.minor, kCapability);
  }
  return "";
}

}  // namespace metronome::executor::runtime
