// The host, or one of its CUDA devices.
#pragma once

#include <cstdint>
#include <string>

namespace metronome {

/// The device on which a step runs, or on which a tensor's bytes lie.
struct Device {
  enum class Kind : std::uint8_t { cpu, cuda };
  Kind kind = Kind::cpu;
  int index = 0;  ///< of a CUDA device

  bool operator==(const Device&) const = default;
};
inline constexpr Device cpu{};
constexpr Device cuda_device(int index = 0) { return {Device::Kind::cuda, index}; }

/// "cpu", "cuda:1".
std::string to_string(const Device& device);

}  // namespace metronome
