// Numbers of layers over images: kernels, strides, paddings, sizes.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace metronome {

/// One number for all spatial dimensions, or one for each.
struct SpatialNumbers {
  template <std::integral I>
  SpatialNumbers(I number)  // NOLINT: conv2d(8, 3)
      : list{static_cast<std::int64_t>(number)} {}
  SpatialNumbers(std::initializer_list<std::int64_t> numbers) : list(numbers) {}
  SpatialNumbers(std::vector<std::int64_t> numbers) : list(std::move(numbers)) {}  // NOLINT

  std::vector<std::int64_t> list;
};

}  // namespace metronome
