#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ops/cuda/launch.h"
#include "ops/cuda/row_plan.h"
#include "ops/cumsum/cumsum.h"
#include "ops/cumsum/cumsum_kernels.h"

namespace metronome {
namespace {

// Lines of so few elements are summed by a thread each, however few they are.
constexpr std::int64_t kFewElements = 8;
// Columns that fill a device with a thread each.
constexpr std::int64_t kManyColumns = 4096;

template <class T>
void record_cumsum(const Cumsum& op, const CudaLaunch& launch) {
  const Shape& shape = launch.inputs[0].shape;
  const auto axis = static_cast<std::size_t>(op.axis);
  cuda::CumsumLines<T> lines{launch.out<T>(0), launch.in<T>(0), 1,           shape[axis], 1,
                             op.exclusive,     op.reverse,      launch.watch};
  for (std::size_t d = 0; d < axis; ++d) lines.outer *= shape[d];
  for (std::size_t d = axis + 1; d < shape.size(); ++d) lines.inner *= shape[d];
  const cuda::Index count = lines.outer * lines.inner;
  // Threads of neighbouring columns read neighbours; those of rows would not.
  const bool many = lines.inner > 1 && count >= kManyColumns;
  if (lines.count <= kFewElements || many) {
    return launch.commands.launch(cuda::CumsumOfThread<T>{lines},
                                  spread(count, 128, launch.device));
  }
  using Kernel = cuda::CumsumOfBlock<T>;
  const int threads = power_of_two(lines.count, cuda::kWarp, cuda::kMostThreads);
  const int shared = threads / cuda::kWarp * static_cast<int>(sizeof(typename Kernel::Total));
  launch.commands.launch(Kernel{lines}, {std::min(count, kMostBlocks), threads, shared});
}

}  // namespace

void record(const Cumsum& op, const CudaLaunch& launch) {
  if (launch.outputs[0].numel() == 0) return;
  with_type(launch.outputs[0].element, [&]<class T>(T*) {
    if constexpr (!std::is_same_v<T, bool> && !kIsHalf<T>) record_cumsum<T>(op, launch);
  });
}

}  // namespace metronome
