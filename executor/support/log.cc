#include "executor/support/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <string>

#include "graph/ir/error.h"

namespace metronome::executor {

spdlog::level::level_enum level_of(const std::string& name) {
  const spdlog::level::level_enum level = spdlog::level::from_str(name);
  if (level == spdlog::level::off && name != "off") {
    throw RunError(
        fmt::format("METRONOME_LOG={}: no such level; give trace, debug, info, warn, error, "
                    "critical or off",
                    name));
  }
  return level;
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> kLogger = [] {
    auto made = std::make_shared<spdlog::logger>(
        "metronome", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("[%n] %v");
    const char* wanted = std::getenv("METRONOME_LOG");
    const bool given = wanted != nullptr && *wanted != '\0';
    made->set_level(given ? level_of(wanted) : spdlog::level::warn);
    return made;
  }();
  return *kLogger;
}

}  // namespace metronome::executor
