#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "ops/cuda/launch.h"
#include "ops/cuda/row_plan.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/layer_norm/layer_norm_kernels.h"

namespace metronome {
namespace {

using cuda::Index;

template <class T>
void record_forward(const LayerNorm& op, const CudaLaunch& l) {
  cuda::NormRows rows = norm_rows(l.inputs[0]);
  KernelShape shape{.threads = block_for(rows.count, rows.threads),
                    .shared_bytes = cuda::team_bytes(cuda::LayerNormForward<T>::kSums, sizeof(T))};
  const Index teams = shape.threads / rows.threads;
  shape.blocks = std::min(ceil_div(rows.count, teams), kMostBlocks);
  rows.kept = rows.width <= kKeptBytes / static_cast<Index>(teams * sizeof(T));
  if (rows.kept) shape.shared_bytes += static_cast<int>(teams * rows.width * sizeof(T));
  l.commands.launch(cuda::LayerNormForward<T>{{l.in<T>(0)},
                                              {l.out<T>(0), l.watch},
                                              l.in<T>(1),
                                              l.in<T>(2),
                                              l.out<T>(1),
                                              l.out<T>(2),
                                              rows,
                                              static_cast<T>(op.eps)},
                    shape);
}

struct BackwardPlan {
  cuda::NormRows rows;
  Index rows_of_block = 0;
  bool sums_kept = false;
  KernelShape shape;
};

// One block for each multiprocessor, two where there are rows enough: each leaves sums behind that
// are read once more.
template <class T>
BackwardPlan plan_backward(const Type& x) {
  using Kernel = cuda::LayerNormBackward<T>;
  BackwardPlan plan;
  cuda::NormRows& rows = plan.rows = norm_rows(x);
  plan.shape.threads = block_for(rows.count / Kernel::kRows, rows.threads);
  const Index teams = plan.shape.threads / rows.threads;
  const Index most = rows.count >= 8 * kFullDevice ? 2 * kFullDevice : kFullDevice;
  plan.rows_of_block =
      std::max<Index>({1, ceil_div(rows.count, most), std::min(teams, rows.count)});
  plan.shape.blocks = ceil_div(rows.count, plan.rows_of_block);

  plan.shape.shared_bytes = cuda::team_bytes(Kernel::kSums, sizeof(T));
  Index left = kKeptBytes;
  const auto keep = [&](Index bytes) {
    if (rows.width > left / bytes) return false;
    left -= rows.width * bytes;
    plan.shape.shared_bytes += static_cast<int>(rows.width * bytes);
    return true;
  };
  plan.sums_kept = keep(teams * 2 * static_cast<Index>(sizeof(T)));
  rows.kept = keep(teams * Kernel::kRows * static_cast<Index>(sizeof(typename Kernel::Pair)));
  return plan;
}

template <class T>
std::size_t backward_scratch(const Type& x) {
  const BackwardPlan plan = plan_backward<T>(x);
  if (plan.shape.blocks <= 1) return 0;
  return static_cast<std::size_t>(plan.shape.blocks * 2 * plan.rows.width) * sizeof(T);
}

template <class T>
void record_backward(const CudaLaunch& l) {
  const BackwardPlan plan = plan_backward<T>(l.inputs[1]);
  const Index width = plan.rows.width, blocks = plan.shape.blocks;
  if (blocks == 0) {
    l.commands.zero(l.out<T>(1), static_cast<std::size_t>(width) * sizeof(T));
    l.commands.zero(l.out<T>(2), static_cast<std::size_t>(width) * sizeof(T));
    return;
  }
  T* const partials = static_cast<T*>(l.scratch);
  l.commands.launch(cuda::LayerNormBackward<T>{{l.in<T>(0)},
                                               {l.in<T>(1)},
                                               {l.out<T>(0), l.watch},
                                               l.in<T>(2),
                                               l.in<T>(3),
                                               l.in<T>(4),
                                               blocks == 1 ? l.out<T>(1) : partials,
                                               blocks == 1 ? l.out<T>(2) : partials + width,
                                               2 * width,
                                               plan.rows,
                                               plan.rows_of_block,
                                               plan.sums_kept,
                                               l.watch},
                    plan.shape);
  if (blocks == 1) return;
  const int tile = tile_for(1, 2 * width, sizeof(T));
  const int threads =
      tile * power_of_two(ceil_div(blocks, 4), 32 / tile, std::min(32, cuda::kMostThreads / tile));
  l.commands.launch(
      cuda::LayerNormSums<T>{partials, l.out<T>(1), l.out<T>(2), blocks, width, tile, l.watch},
      {.blocks = std::min(ceil_div(2 * width, tile), kMostBlocks),
       .threads = threads,
       .shared_bytes = cuda::tile_bytes(threads, tile, 1, sizeof(T))});
}

}  // namespace

void record(const LayerNorm& op, const CudaLaunch& l) {
  l.inputs[0].element == f64 ? record_forward<double>(op, l) : record_forward<float>(op, l);
}

std::vector<Candidate> candidates(const LayerNormGrad&, const CudaQuery& q) {
  const Type& x = q.inputs[1];
  return {{.scratch_bytes =
               x.element == f64 ? backward_scratch<double>(x) : backward_scratch<float>(x)}};
}

void record(const LayerNormGrad&, const CudaLaunch& l) {
  l.inputs[0].element == f64 ? record_backward<double>(l) : record_backward<float>(l);
}

}  // namespace metronome
