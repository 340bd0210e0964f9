#include "ops/embedding/embedding.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"

namespace metronome::METRONOME_ISA {
namespace {

template <class Index>
CpuKernel lookup(const CpuLaunch& launch) {
  const std::int64_t bytes =
      launch.inputs[0].shape[1] * static_cast<std::int64_t>(size_of(launch.inputs[0].element));
  if (launch.outputs[0].numel() == 0) return CpuKernel([] {});
  return CpuKernel(
      [to = launch.out<char>(0), table = launch.in<char>(0), index = launch.in<Index>(1),
       rows = static_cast<Index>(launch.inputs[0].shape[0]), bytes, n = launch.inputs[1].numel(),
       threads = launch.choice.threads, fault = launch.fault] {
        const std::int64_t grain = std::max<std::int64_t>(1, 16384 / bytes);
        parallel_for(threads, n, grain, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const Index row = index[i];
            if (row >= 0 && row < rows) {
              std::memcpy(to + i * bytes, table + row * bytes, static_cast<std::size_t>(bytes));
            } else {
              std::memset(to + i * bytes, 0, static_cast<std::size_t>(bytes));
              fault.report(row);
            }
          }
        });
      });
}

/// Threads share out the columns of what is added, so that each sum is added in the order of the
/// indices whatever their number.
template <class T, class Index>
CpuKernel scatter(const EmbeddingGrad& op, const CpuLaunch& launch) {
  const std::int64_t width = launch.outputs[0].shape[1];
  if (launch.outputs[0].numel() == 0) return CpuKernel([] {});
  return CpuKernel([to = launch.out<T>(0), g = launch.in<T>(0), index = launch.in<Index>(1),
                    rows = op.rows, width, n = launch.inputs[1].numel(),
                    threads = launch.choice.threads] {
    constexpr std::int64_t kLine = 64 / sizeof(T), kPage = 4096 / sizeof(T);
    parallel_for(threads, rows * width, kPage, [&](std::int64_t begin, std::int64_t end) {
      std::memset(to + begin, 0, static_cast<std::size_t>(end - begin) * sizeof(T));
    });
    parallel_for(threads, width, kLine, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t count = end - begin;
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t row = index[i];
        if (row < 0 || row >= rows) continue;
        T* sum = to + row * width + begin;
        const T* add = g + i * width + begin;
#pragma GCC ivdep
        for (std::int64_t c = 0; c < count; ++c) sum[c] += add[c];
      }
    });
  });
}

}  // namespace

CpuKernel bind(const Embedding&, const CpuLaunch& launch) {
  return launch.inputs[1].element == i32 ? lookup<std::int32_t>(launch)
                                         : lookup<std::int64_t>(launch);
}

CpuKernel bind(const EmbeddingGrad& op, const CpuLaunch& launch) {
  const bool narrow = launch.inputs[1].element == i32;
  if (launch.inputs[0].element == f32) {
    return narrow ? scatter<float, std::int32_t>(op, launch)
                  : scatter<float, std::int64_t>(op, launch);
  }
  return narrow ? scatter<double, std::int32_t>(op, launch)
                : scatter<double, std::int64_t>(op, launch);
}

}  // namespace metronome::METRONOME_ISA
