#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/cuda/launch.h"
#include "ops/cuda/row_plan.h"
#include "ops/sort/sort.h"
#include "ops/sort/sort_kernels.h"

namespace metronome {
namespace {

using cuda::Index;

// Elements of a run that a block sorts, of any element type.
constexpr Index kRun = cuda::SortRuns<float>::kRun;

/// Tables of indices between the passes: none, one, or two in turn.
std::size_t tables(Index count) { return count <= kRun ? 0 : count <= 2 * kRun ? 1 : 2; }

template <class T>
void record_sort(const Sort& op, const CudaLaunch& launch) {
  const Shape& shape = launch.inputs[0].shape;
  const Index count = shape[op.axis];
  Index inner = 1;
  for (std::size_t d = static_cast<std::size_t>(op.axis) + 1; d < shape.size(); ++d) {
    inner *= shape[d];
  }
  const Index all = launch.inputs[0].numel(), lines = all / count;
  const cuda::SortLines<T> sorted{launch.in<T>(0), lines, count, inner, op.descending};
  const cuda::SortTarget<T> results{nullptr, launch.out<T>(0), launch.out<Index>(1),
                                    launch.outputs[0].shape[op.axis]};
  const auto to_table = [](Index* table) {
    return cuda::SortTarget<T>{table, nullptr, nullptr, 0};
  };
  auto* from = static_cast<Index*>(launch.scratch);
  Index* to = tables(count) == 2 ? from + all : nullptr;

  const int threads = power_of_two(count, cuda::kWarp, 256);
  const int shared = static_cast<int>(std::min(count, kRun) * sizeof(T));
  launch.commands.launch(cuda::SortRuns<T>{sorted, count <= kRun ? results : to_table(from)},
                         {std::min(lines * ceil_div(count, kRun), kMostBlocks), threads, shared});
  for (Index run = kRun; run < count; run *= 2) {
    const bool last = 2 * run >= count;
    launch.commands.launch(cuda::SortMerge<T>{sorted, last ? results : to_table(to), from, run},
                           spread(all, 256, launch.device));
    std::swap(from, to);
  }
}

}  // namespace

std::vector<Candidate> candidates(const Sort& op, const CudaQuery& query) {
  const Type& x = query.inputs[0];
  Candidate own;
  own.scratch_bytes =
      tables(x.shape[op.axis]) * static_cast<std::size_t>(x.numel()) * sizeof(Index);
  return {own};
}

void record(const Sort& op, const CudaLaunch& launch) {
  if (launch.outputs[0].numel() == 0) return;
  with_type(launch.inputs[0].element, [&]<class T>(T*) {
    if constexpr (!std::is_same_v<T, bool>) record_sort<T>(op, launch);
  });
}

}  // namespace metronome
