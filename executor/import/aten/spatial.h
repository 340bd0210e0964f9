// Numbers of spatial dimensions, and the choice of a function by how many there are. Internal to
// executor/import.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "executor/import/aten/call.h"
#include "ops/layers/spatial_numbers.h"

namespace metronome::pt2 {

/// One number for all spatial dimensions, or one for each.
inline SpatialNumbers spatial(const std::vector<std::int64_t>& numbers, std::int64_t dimensions) {
  if (dimensions < 1) throw Unsupported{"its operand has no batch"};
  if (numbers.size() == 1)
    return SpatialNumbers(Shape(static_cast<std::size_t>(dimensions), numbers[0]));
  return SpatialNumbers(numbers);
}

/// Calls the function for so many spatial dimensions: the first is of one.
template <class... Of>
Values by_dimensions(std::int64_t dimensions, const Of&... of) {
  std::int64_t at = 0;
  Values made;
  ((++at == dimensions ? static_cast<void>(made = {of()}) : static_cast<void>(0)), ...);
  if (made.empty()) {
    throw Unsupported{fmt::format("its operand has {} spatial dimensions", dimensions)};
  }
  return made;
}

}  // namespace metronome::pt2
