#include "executor/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <string>

#include "graph/error.h"

namespace metronome {
namespace {

spdlog::level::level_enum wanted_level() {
  const char* text = std::getenv("METRONOME_LOG");
  if (text == nullptr || *text == '\0') return spdlog::level::warn;
  const spdlog::level::level_enum level = spdlog::level::from_str(text);
  if (level == spdlog::level::off && std::string_view(text) != "off") {
    throw RunError(
        fmt::format("METRONOME_LOG={}: no such level; give trace, debug, info, warn, error, "
                    "critical or off",
                    text));
  }
  return level;
}

}  // namespace

spdlog::logger& log() {
  static const std::shared_ptr<spdlog::logger> kLogger = [] {
    auto logger = std::make_shared<spdlog::logger>(
        "metronome", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    logger->set_pattern("[%n] %v");
    logger->set_level(wanted_level());
    return logger;
  }();
  return *kLogger;
}

}  // namespace metronome
