#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "ops/cuda/launch.h"
#include "ops/cuda/units.h"
#include "ops/expr/nest.h"
#include "ops/transpose/transpose.h"
#include "ops/transpose/transpose_kernels.h"

namespace metronome {
namespace {

/// One loop: how far the result and the operand move, in elements.
struct TransposeLoop {
  std::int64_t size, to, from;
};

// Below this a tile would be mostly empty.
constexpr std::int64_t kTileFrom = 8;

std::vector<TransposeLoop> loops_of(const Transpose& op, const CudaLaunch& launch) {
  const Shape& shape = launch.outputs[0].shape;
  const Shape from = dense_strides(launch.inputs[0].shape);
  Shape moved;
  for (const std::int64_t axis : op.axes) {
    moved.push_back(from[axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) : axis]);
  }
  const Nest nest = coalesce({shape, {dense_strides(shape), moved}});
  std::vector<TransposeLoop> loops;
  for (std::int64_t d = 0; d < nest.rank(); ++d) {
    loops.push_back({nest.sizes[d], nest.strides[0][d], nest.strides[1][d]});
  }
  return loops;
}

/// The last loop is dense on both sides where `dense`: elements are then moved several at a time.
void record_permute(const std::vector<TransposeLoop>& loops, bool dense, const CudaLaunch& launch) {
  const Type& type = launch.outputs[0];
  const auto size = static_cast<std::int64_t>(size_of(type.element));
  std::int64_t unit = size;
  if (dense) {
    unit = common_unit(
        {address(launch.input_data[0]), address(launch.output_data[0]), loops.back().size * size});
    for (std::size_t d = 0; d + 1 < loops.size(); ++d) {
      unit = common_unit({unit, loops[d].from * size});
    }
  }
  with_unit(unit, [&](auto* of_unit) {
    using Unit = std::remove_pointer_t<decltype(of_unit)>;
    const std::int64_t count = static_cast<std::int64_t>(type.bytes()) / unit;
    cuda::Permute<Unit> kernel = {launch.out<Unit>(0), launch.in<Unit>(0), {}, count};
    for (std::size_t d = 0; d < loops.size(); ++d) {
      const bool last = dense && d + 1 == loops.size();
      kernel.loops.add(last ? loops[d].size * size / unit : loops[d].size,
                       last ? 1 : loops[d].from * size / unit);
    }
    // Units that a thread loads together: several once every multiprocessor has two blocks.
    constexpr int kThreads = 256;
    const std::int64_t full = 2 * kThreads * launch.device.multiprocessors;
    const auto each = std::clamp<std::int64_t>(count / full, 1, cuda::kTogether);
    launch.commands.launch(kernel, spread(count, kThreads, launch.device, static_cast<int>(each)));
  });
}

template <class Unit>
void record_tiles(const std::vector<TransposeLoop>& outer, const TransposeLoop& rows,
                  const TransposeLoop& columns, const CudaLaunch& launch) {
  using Kernel = cuda::TransposeTiles<Unit>;
  const auto tiles = [](std::int64_t n) { return (n + Kernel::kTile - 1) / Kernel::kTile; };
  Kernel kernel = {.to = launch.out<Unit>(0),
                   .from = launch.in<Unit>(0),
                   .rows = rows.size,
                   .columns = columns.size,
                   .from_step = rows.from,
                   .to_step = columns.to,
                   .outer_from = {},
                   .outer_to = {},
                   .row_tiles = tiles(rows.size),
                   .column_tiles = tiles(columns.size),
                   .tiles = tiles(rows.size) * tiles(columns.size)};
  for (const TransposeLoop& loop : outer) {
    kernel.outer_from.add(loop.size, loop.from);
    kernel.outer_to.add(loop.size, loop.to);
    kernel.tiles *= loop.size;
  }
  constexpr std::int64_t kMaxBlocks = 1 << 20;  // blocks take several tiles of the rest
  launch.commands.launch(kernel, {std::min<std::int64_t>(kernel.tiles, kMaxBlocks),
                                  Kernel::kThreads, Kernel::kShared});
}

}  // namespace

void record(const Transpose& op, const CudaLaunch& launch) {
  const Type& type = launch.outputs[0];
  if (type.numel() == 0) return;
  std::vector<TransposeLoop> loops = loops_of(op, launch);
  if (loops.size() < 2) {  // nothing moves
    return launch.commands.copy(launch.output_data[0], launch.input_data[0], type.bytes());
  }
  if (loops.back().from == 1) return record_permute(loops, true, launch);
  // A dense operand has a dimension of step 1.
  const auto dense = std::find_if(loops.begin(), loops.end(),
                                  [](const TransposeLoop& loop) { return loop.from == 1; });
  const TransposeLoop rows = loops.back(), columns = *dense;
  if (std::min(rows.size, columns.size) < kTileFrom) return record_permute(loops, false, launch);
  loops.pop_back();
  loops.erase(dense);
  with_element_unit(type.element,
                    [&]<class Unit>(Unit*) { record_tiles<Unit>(loops, rows, columns, launch); });
}

}  // namespace metronome
