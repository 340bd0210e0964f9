// A language model of bytes with routed experts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace metronome::gallery {

struct RoutedLanguageOptions {
  std::string text;  ///< what it learns, 16 rows of 33 bytes or more
  std::int64_t steps = 300;
  std::int64_t sampled = 200;  ///< bytes to write
  std::string begin = "\n";    ///< what the sample goes on from: a byte or more
  std::uint64_t seed = 1;
};

struct RoutedLanguageResult {
  double first_bits = 0, last_bits = 0;  ///< a byte, of the first and of the last ten steps
  double dropped = 0;                    ///< share of bytes x experts that found no slot, at last
  std::string sample;
};

/// Trains, then writes byte by byte; `say` gets a line now and then. Throws RunError for a text
/// that is too short.
RoutedLanguageResult learn_and_write(const RoutedLanguageOptions& options,
                                     const std::function<void(const std::string& line)>& say);

}  // namespace metronome::gallery
