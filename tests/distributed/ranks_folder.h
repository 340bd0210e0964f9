// Helpers of tests whose ranks are processes.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace metronome::distributed {

constexpr const char* kRankProgram = "tests/rank_program";

/// An empty folder for what ranks say.
inline std::string fresh_folder() {
  const char* temporary = std::getenv("TEST_TMPDIR");
  const std::string folder = fmt::format("{}/ranks", temporary == nullptr ? "/tmp" : temporary);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

}  // namespace metronome::distributed
