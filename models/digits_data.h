// 1,797 handwritten digits of 8x8 pixels: the UCI optical digits data set's test part, as the
// scikit-learn package carries it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace metronome::models {

constexpr std::size_t kPixels = 64;
constexpr std::int64_t kClasses = 10;

/// One digit: brightness in [0, 1], row-major, and which digit it is.
struct Digit {
  std::array<float, kPixels> pixels;
  std::int64_t label = 0;
};

/// The file that METRONOME_DIGITS names. Throws RunError where it is not set.
std::string digits_file();

/// Reads lines of 64 whole numbers from 0 to 16 and a label from 0 to 9, separated by commas.
/// Throws RunError with file, line and value.
std::vector<Digit> read_digits(const std::string& file);

struct DigitsSplit {
  std::vector<Digit> train;
  std::vector<Digit> test;
};

/// 80 % and 20 % of the digits, shuffled by the seed.
DigitsSplit split_digits(std::vector<Digit> digits, std::uint64_t seed);

}  // namespace metronome::models
