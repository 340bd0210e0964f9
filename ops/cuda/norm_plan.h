// How norms of rows (ops/kernel/row_norms.h) are launched: a team of threads for each row, and for
// a gradient's sums over rows one sum for each block, then one over blocks.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "graph/ir/type.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/row_plan.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/reduce.h"
#include "ops/kernel/row_norms.h"

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
  rows.kept = rows.width <= kSharedBytes / static_cast<cuda::Index>(teams * sizeof(T));
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

/// For a gradient of rows of T. One block for each multiprocessor, two where there are rows enough:
/// each leaves sums behind that are read once more.
template <class Norm, class T>
NormGradPlan norm_grad_plan(const Type& x) {
  using cuda::Index;
  using Kernel = cuda::NormBackward<Norm, T>;
  NormGradPlan plan{.rows = norm_rows(x)};
  cuda::NormRows& rows = plan.rows;
  plan.columns = Kernel::kColumns * rows.width;
  const bool few = rows.count <= kRowsOfOneBlock && rows.threads <= 32;
  plan.shape.threads =
      few ? power_of_two(ceil_div(rows.count, Kernel::kRows) * rows.threads, 32, 256)
          : block_for(rows.count / Kernel::kRows, rows.threads);
  const Index teams = plan.shape.threads / rows.threads;
  const Index most = few ? 1 : rows.count >= 8 * kFullDevice ? 2 * kFullDevice : kFullDevice;
  plan.rows_of_block =
      std::max<Index>({1, ceil_div(rows.count, most), std::min(teams, rows.count)});
  plan.shape.blocks = ceil_div(rows.count, plan.rows_of_block);

  plan.shape.shared_bytes = cuda::team_bytes(Kernel::kSums, sizeof(T));
  Index left = kSharedBytes;
  const auto keep = [&](Index bytes) {
    if (rows.width > left / bytes) return false;
    left -= rows.width * bytes;
    plan.shape.shared_bytes += static_cast<int>(rows.width * bytes);
    return true;
  };
  plan.sums_kept = keep(teams * Kernel::kColumns * static_cast<Index>(sizeof(T)));
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

/// Launches a norm. Operands: x, gamma, beta if centered; results: y, each row's mean if centered,
/// rstd.
template <class Norm>
void record_norm(double eps, const CudaLaunch& l) {
  with_floating(l.inputs[0].element, [&](auto number) {
    using T = decltype(number);
    using Kernel = cuda::NormForward<Norm, T>;
    const NormPlan plan = norm_plan<T>(l.inputs[0], Kernel::kSums);
    l.commands.launch(Kernel{{l.in<T>(0)},
                             {l.out<T>(0), l.watch},
                             l.in<T>(1),
                             Norm::centered ? l.in<T>(2) : nullptr,
                             Norm::centered ? l.out<T>(1) : nullptr,
                             l.out<T>(Norm::centered ? 2 : 1),
                             plan.rows,
                             static_cast<T>(eps)},
                      plan.shape, fixed_text(plan.rows));
  });
}

template <class Norm>
std::vector<Candidate> norm_grad_candidates(const Type& x) {
  return {{.scratch_bytes = x.element == f64
                                ? norm_grad_plan<Norm, double>(x).scratch_bytes(sizeof(double))
                                : norm_grad_plan<Norm, float>(x).scratch_bytes(sizeof(float))}};
}

/// Launches its gradient. Operands: the gradient of y, x, each row's mean if centered, rstd, gamma;
/// results: the gradients of x, of gamma, of beta if centered.
template <class Norm>
void record_norm_grad(const CudaLaunch& l) {
  with_floating(l.inputs[0].element, [&](auto number) {
    using T = decltype(number);
    const NormGradPlan plan = norm_grad_plan<Norm, T>(l.inputs[1]);
    const cuda::Index width = plan.rows.width, blocks = plan.shape.blocks;
    T *const dgamma = l.out<T>(1), *const dbeta = Norm::centered ? l.out<T>(2) : nullptr;
    if (blocks == 0) {
      const std::size_t bytes = static_cast<std::size_t>(width) * sizeof(T);
      l.commands.zero(dgamma, bytes);
      if (Norm::centered) l.commands.zero(dbeta, bytes);
      return;
    }
    T* const partials = static_cast<T*>(l.scratch);
    constexpr std::size_t kRstd = Norm::centered ? 3 : 2;
    l.commands.launch(cuda::NormBackward<Norm, T>{{l.in<T>(0)},
                                                  {l.in<T>(1)},
                                                  {l.out<T>(0), l.watch},
                                                  Norm::centered ? l.in<T>(2) : nullptr,
                                                  l.in<T>(kRstd),
                                                  l.in<T>(kRstd + 1),
                                                  blocks == 1 ? dgamma : partials,
                                                  blocks == 1 ? dbeta : partials + width,
                                                  plan.rows,
                                                  plan.rows_of_block,
                                                  plan.sums_kept,
                                                  l.watch},
                      plan.shape, fixed_text(plan));
    if (blocks == 1) return;
    const auto [tile, shape] = norm_sums_plan(plan, sizeof(T));
    l.commands.launch(
        cuda::NormSums<Norm, T>{partials, dgamma, dbeta, blocks, width, tile, l.watch}, shape);
  });
}

}  // namespace metronome
