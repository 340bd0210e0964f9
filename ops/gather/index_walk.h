// How an index along an axis walks over the tensor that it points into.
#pragma once

#include <cstdint>

#include "graph/ir/type.h"
#include "ops/expr/nest.h"

namespace metronome {

/// Element (o, k, j) of an index [outer, count, inner], dense, stands for the place
/// offset(before, o) + index * step + offset(after, j) of x.
struct IndexWalk {
  std::int64_t outer = 1, count = 1, inner = 1;
  Nest before, after;     ///< the index's dimensions on each side of the axis, with x's strides
  std::int64_t size = 1;  ///< of x along the axis
  std::int64_t step = 1;
};

inline IndexWalk walk_of(const Shape& x, const Shape& index, std::int64_t axis) {
  const Shape strides = dense_strides(x);
  IndexWalk walk;
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    return coalesce({Shape(index.begin() + begin, index.begin() + end),
                     {Shape(strides.begin() + begin, strides.begin() + end)}});
  };
  const auto rank = static_cast<std::int64_t>(x.size());
  for (std::int64_t d = 0; d < axis; ++d) walk.outer *= index[d];
  for (std::int64_t d = axis + 1; d < rank; ++d) walk.inner *= index[d];
  walk.count = index[axis];
  walk.before = part(0, axis);
  walk.after = part(axis + 1, rank);
  walk.size = x[axis];
  walk.step = strides[axis];
  return walk;
}

}  // namespace metronome
