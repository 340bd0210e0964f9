#pragma once

#include <spdlog/logger.h>

#include <string>

namespace metronome::executor {

/// The level that METRONOME_LOG names. Throws RunError for one that spdlog does not know.
spdlog::level::level_enum level_of(const std::string& name);

/// Returns the logger to which compile writes, on stderr: METRONOME_LOG=debug shows each pass and
/// each timing; warnings and above are shown by default.
spdlog::logger& logger();

}  // namespace metronome::executor
