#pragma once

#include <spdlog/logger.h>

namespace metronome {

/// What compile tells on the way, to stderr: METRONOME_LOG=debug shows each pass and each timing;
/// warnings and above are shown by default. Throws RunError for a level that spdlog does not know.
spdlog::logger& log();

}  // namespace metronome
