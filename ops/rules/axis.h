// A shape as its axis sees it, and types without their last dimension.
#pragma once

#include <cstdint>

#include "graph/ir/type.h"

namespace metronome {

/// [outer, size, inner]: the axis in the middle, the dimensions before and behind it each as one.
struct AxisExtent {
  std::int64_t outer = 1;
  std::int64_t size = 1;
  std::int64_t inner = 1;

  std::int64_t row() const { return size * inner; }  ///< of the `outer` rows
};

/// `axis` may count from the end.
inline AxisExtent extent_along(const Type& type, std::int64_t axis) {
  const std::int64_t at = normalized_axis(axis, type.rank());
  AxisExtent e;
  for (std::int64_t d = 0; d < type.rank(); ++d) {
    (d < at ? e.outer : d == at ? e.size : e.inner) *= type.shape[static_cast<std::size_t>(d)];
  }
  return e;
}

/// The extent along an axis with `inner` in bytes.
inline AxisExtent bytes_along(const Type& type, std::int64_t axis) {
  AxisExtent e = extent_along(type, axis);
  e.inner *= static_cast<std::int64_t>(size_of(type.element));
  return e;
}

/// A range of the axis: `rows` rows of `whole` bytes, of which `part` bytes lie at `offset`.
struct AxisRange {
  std::int64_t rows, whole, part, offset;
};
inline AxisRange range_along(const Type& type, std::int64_t axis, std::int64_t begin,
                             std::int64_t count) {
  const AxisExtent e = bytes_along(type, axis);
  return {e.outer, e.row(), count * e.inner, begin * e.inner};
}

/// All dimensions but the last ones.
inline Shape leading(const Shape& shape, std::int64_t dropped) {
  return Shape(shape.begin(), shape.end() - dropped);
}

/// One element for each row along the last dimension.
inline Type without_last(const Type& type) { return {type.element, leading(type.shape, 1)}; }

}  // namespace metronome
