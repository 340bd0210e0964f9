// How norms of rows are launched: a team of threads for each row, and for a gradient's sums over
// rows one sum for each block, then one over blocks.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "graph/ir/type.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/row_plan.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/reduce.h"

namespace metronome {

struct NormPlan {
  cuda::NormRows rows;
  KernelShape shape = {};
};

/// Statements that fix the rows of a kernel `k` (KernelCommand::fixed).
inline std::string fixed_text(const cuda::NormRows& rows) {
  return fmt::format("k.rows = {{{}LL, {}LL, {}, {}}};\n", rows.count, rows.width, rows.threads,
                     rows.kept);
}

/// For a kernel that makes rows of T from rows of x, reducing `values` numbers at once.
template <class T>
NormPlan norm_plan(const Type& x, int values) {
  NormPlan plan{.rows = norm_rows(x)};
  cuda::NormRows& rows = plan.rows;
  plan.shape.threads = block_for(rows.count, rows.threads);
  plan.shape.shared_bytes = cuda::team_bytes(values, sizeof(T));
  const cuda::Index teams = plan.shape.threads / rows.threads;
  plan.shape.blocks = std::min(ceil_div(rows.count, teams), kMostBlocks);
  rows.kept = rows.width <= kKeptBytes / static_cast<cuda::Index>(teams * sizeof(T));
  if (rows.kept) plan.shape.shared_bytes += static_cast<int>(teams * rows.width * sizeof(T));
  return plan;
}

struct NormGradPlan {
  cuda::NormRows rows;
  cuda::Index rows_of_block = 0;
  bool sums_kept = false;
  cuda::Index columns = 0;  ///< sums that each block leaves
  KernelShape shape = {};

  /// Bytes of what blocks leave; one block leaves the results themselves.
  std::size_t scratch_bytes(std::size_t element) const {
    return shape.blocks <= 1 ? 0 : static_cast<std::size_t>(shape.blocks * columns) * element;
  }
};

inline std::string fixed_text(const NormGradPlan& plan) {
  return fmt::format("{}k.rows_of_block = {}LL;\nk.sums_kept = {};\n", fixed_text(plan.rows),
                     plan.rows_of_block, plan.sums_kept);
}

/// So few narrow rows are one block's, which leaves no sums for another launch.
constexpr cuda::Index kRowsOfOneBlock = 16;

/// For `Kernel` of T, which reduces `values` numbers at once and leaves `sums` sums over rows for
/// each column of x. One block for each multiprocessor, two where there are rows enough: each
/// leaves sums behind that are read once more.
template <class Kernel, class T>
NormGradPlan norm_grad_plan(const Type& x, int values, int sums) {
  using cuda::Index;
  NormGradPlan plan{.rows = norm_rows(x)};
  cuda::NormRows& rows = plan.rows;
  plan.columns = sums * rows.width;
  const bool few = rows.count <= kRowsOfOneBlock && rows.threads <= 32;
  plan.shape.threads =
      few ? power_of_two(ceil_div(rows.count, Kernel::kRows) * rows.threads, 32, 256)
          : block_for(rows.count / Kernel::kRows, rows.threads);
  const Index teams = plan.shape.threads / rows.threads;
  const Index most = few ? 1 : rows.count >= 8 * kFullDevice ? 2 * kFullDevice : kFullDevice;
  plan.rows_of_block =
      std::max<Index>({1, ceil_div(rows.count, most), std::min(teams, rows.count)});
  plan.shape.blocks = ceil_div(rows.count, plan.rows_of_block);

  plan.shape.shared_bytes = cuda::team_bytes(values, sizeof(T));
  Index left = kKeptBytes;
  const auto keep = [&](Index bytes) {
    if (rows.width > left / bytes) return false;
    left -= rows.width * bytes;
    plan.shape.shared_bytes += static_cast<int>(rows.width * bytes);
    return true;
  };
  plan.sums_kept = keep(teams * sums * static_cast<Index>(sizeof(T)));
  rows.kept = keep(teams * Kernel::kRows * static_cast<Index>(sizeof(typename Kernel::Pair)));
  return plan;
}

struct NormSumsPlan {
  int tile = 0;  ///< columns
  KernelShape shape;
};

/// For the kernel that adds up what blocks left.
inline NormSumsPlan norm_sums_plan(const NormGradPlan& of, int element) {
  const int tile = tile_for(1, of.columns, element);
  const int threads = tile * power_of_two(ceil_div(of.shape.blocks, 4), 32 / tile,
                                          std::min(32, cuda::kMostThreads / tile));
  return {tile,
          {.blocks = std::min(ceil_div(of.columns, tile), kMostBlocks),
           .threads = threads,
           .shared_bytes = cuda::tile_bytes(threads, tile, 1, element)}};
}

}  // namespace metronome
