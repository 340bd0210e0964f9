// How many threads and blocks share out rows and columns. By the shape alone: the same on every
// device.
#pragma once

#include <algorithm>
#include <bit>

#include "graph/ir/type.h"
#include "ops/kernel/bound.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/reduce.h"

namespace metronome {

/// Shared memory that kernels keep operands in; what reductions take comes on top.
constexpr cuda::Index kSharedBytes = 32 * 1024;

/// Blocks that fill the largest device this is tuned for (132 multiprocessors).
constexpr cuda::Index kFullDevice = 132;

/// More blocks than this stride over the rest.
constexpr cuda::Index kMostBlocks = cuda::Index{1} << 20;

constexpr cuda::Index ceil_div(cuda::Index a, cuda::Index b) { return (a + b - 1) / b; }

/// The least power of two that is at least n, between two powers of two.
constexpr int power_of_two(cuda::Index n, int low, int high) {
  return static_cast<int>(
      std::bit_ceil(static_cast<unsigned long long>(std::clamp<cuda::Index>(n, low, high))));
}

/// Threads that share a row of neighbouring elements: lanes of a warp while that gives each at most
/// 8 elements, else a block, with about 4 elements each.
constexpr int team_for(cuda::Index width) {
  return width <= 32    ? power_of_two(width, 1, 32)
         : width <= 256 ? 32
                        : power_of_two(ceil_div(width, 4), 128, cuda::kMostThreads);
}

/// Threads of a block of teams: those of a wide row, else as many as leave two blocks for each
/// multiprocessor.
constexpr int block_for(cuda::Index rows, int team) {
  return team > 32 ? team : power_of_two(rows * team / (2 * kFullDevice), 32, 256);
}

/// The rows of x along its last dimension.
inline cuda::NormRows norm_rows(const Type& x) {
  cuda::NormRows rows{.count = 1, .width = x.shape.back()};
  for (std::size_t d = 0; d + 1 < x.shape.size(); ++d) rows.count *= x.shape[d];
  rows.threads = team_for(rows.width);
  return rows;
}

/// Columns of a tile: neighbours enough for a sector of 32 bytes, more where there are so many that
/// the device stays full.
constexpr int tile_for(cuda::Index planes, cuda::Index columns, cuda::Index element_bytes) {
  int width = power_of_two(columns, 1, 32);
  while (width * element_bytes > 32 && planes * ceil_div(columns, width) < kFullDevice) width /= 2;
  return width;
}

}  // namespace metronome
