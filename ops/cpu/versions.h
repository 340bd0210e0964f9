#pragma once

#include <string>

namespace metronome {

/// "libtorch 2.11.0, oneDNN 3.2.0": what a tuning choice depends on beside the processor.
std::string cpu_library_versions();

}  // namespace metronome
