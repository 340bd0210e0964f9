// Bazel's shards: several processes of one test share out its work.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <fstream>

namespace metronome {

/// This process takes the items index, index + count, ...
struct Share {
  std::size_t index = number("TEST_SHARD_INDEX", 0);
  std::size_t count = number("TEST_TOTAL_SHARDS", 1);
  Share() {
    // Tells Bazel that this program knows of shards.
    if (const char* file = std::getenv("TEST_SHARD_STATUS_FILE")) std::ofstream{file};
  }

 private:
  static std::size_t number(const char* name, std::size_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoul(text, nullptr, 10);
  }
};

}  // namespace metronome
