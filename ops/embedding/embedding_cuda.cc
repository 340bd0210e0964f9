#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ops/cuda/launch.h"
#include "ops/cuda/row_plan.h"
#include "ops/cuda/units.h"
#include "ops/embedding/embedding.h"
#include "ops/embedding/embedding_kernels.h"

namespace metronome {
namespace {

template <class I>
void record_lookup(const CudaLaunch& launch) {
  const Type& table = launch.inputs[0];
  const auto width = table.shape[1] * static_cast<std::int64_t>(size_of(table.element));
  const auto bytes = static_cast<std::int64_t>(launch.outputs[0].bytes());
  if (bytes == 0) return;
  const std::int64_t unit =
      common_unit({width, address(launch.input_data[0]), address(launch.output_data[0])});
  with_unit(unit, [&](auto* of_unit) {
    using Unit = std::remove_pointer_t<decltype(of_unit)>;
    launch.commands.launch(
        cuda::Embedding<Unit, I>{launch.out<Unit>(0), launch.in<Unit>(0), launch.in<I>(1),
                                 table.shape[0], width / unit, bytes / unit, launch.lookups},
        spread(bytes / unit, 256, launch.device, 2));
  });
}

template <class T, class I>
void record_scatter(const EmbeddingGrad& op, const CudaLaunch& launch) {
  using Kernel = cuda::EmbeddingGrad<T, I>;
  const std::int64_t width = launch.outputs[0].shape[1], count = launch.inputs[1].numel();
  if (launch.outputs[0].numel() == 0) return;
  if (count == 0) return launch.commands.zero(launch.output_data[0], launch.outputs[0].bytes());
  // A warp for each row, or enough of them to see all indices at once.
  constexpr std::int64_t kWarps = Kernel::most_threads / cuda::kWarp;
  const std::int64_t warps = std::min(
      std::max<std::int64_t>(op.rows, ceil_div(count, cuda::kWarp * Kernel::kVotes)), kWarps);
  const std::int64_t groups = ceil_div(op.rows, warps);
  // Columns enough to read indices seldom, fewer where blocks would leave the device idle.
  std::int64_t columns = Kernel::kColumns;
  const auto strips = [&] { return ceil_div(width, columns * cuda::kWarp); };
  while (columns > 1 && groups * strips() < kFullDevice) columns /= 2;
  const int threads = static_cast<int>(warps) * cuda::kWarp;
  launch.commands.launch(Kernel{launch.out<T>(0), launch.in<T>(0), launch.in<I>(1), op.rows, width,
                                count, strips(), static_cast<int>(columns), launch.watch},
                         {groups * strips(), threads, Kernel::shared_bytes(threads)});
}

}  // namespace

void record(const Embedding&, const CudaLaunch& launch) {
  if (launch.inputs[1].element == i32) return record_lookup<int>(launch);
  record_lookup<long long>(launch);
}

void record(const EmbeddingGrad& op, const CudaLaunch& launch) {
  const bool narrow = launch.inputs[1].element == i32;
  if (launch.outputs[0].element == f32) {
    return narrow ? record_scatter<float, int>(op, launch)
                  : record_scatter<float, long long>(op, launch);
  }
  narrow ? record_scatter<double, int>(op, launch) : record_scatter<double, long long>(op, launch);
}

}  // namespace metronome
