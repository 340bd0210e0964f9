// Whether a device can be used, decided from what was found: no call of CUDA here.
#pragma once

#include <optional>
#include <string>

namespace metronome::executor::runtime {

/// Properties of a machine and of one of its devices, as the CUDA runtime tells them.
struct FoundDevices {
  int driver = 0;  ///< the CUDA version that the driver serves, as 13000; 0: there is no driver
  int count = 0;
  std::string error = {};  ///< why the devices could not be counted; empty: they were
  std::optional<std::string> visible = {};  ///< CUDA_VISIBLE_DEVICES, where it is set
  /// The device asked for, if there is one: its name, then its compute capability.
  std::string name = {};
  int major = 0;  ///< compute capability
  int minor = 0;
};

/// Why the device `index` cannot be used: one sentence that says what is missing, and the way out.
/// Empty where it can.
std::string refusal(const FoundDevices& found, int index);

}  // namespace metronome::executor::runtime
