#include "ops/row_updates/row_updates.h"

#include <cstring>

#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"

namespace metronome::METRONOME_ISA {
namespace {

/// Threads share out the columns, so that each sum is added in one order whatever their number.
template <class T, class Index>
CpuKernel run_sum(const CpuLaunch& launch) {
  const std::int64_t n = launch.outputs[0].shape[0], width = launch.outputs[0].shape[1];
  const int threads = n * width >= kParallelFrom ? launch.choice.threads : 1;
  return CpuKernel([to = launch.out<T>(0), x = launch.in<T>(0), index = launch.in<Index>(1),
                    position = launch.in<std::int64_t>(2), n, width, threads] {
    constexpr std::int64_t kLine = 64 / sizeof(T);
    parallel_for(threads, width, kLine, [=](std::int64_t begin, std::int64_t end) {
      const std::int64_t count = end - begin;
      for (std::int64_t i = 0; i < n; ++i) {
        T* const sum = to + i * width + begin;
        std::memset(sum, 0, static_cast<std::size_t>(count) * sizeof(T));
        if (i > 0 && index[i - 1] == index[i]) continue;
        for (std::int64_t j = i; j < n && index[j] == index[i]; ++j) {
          if (position[j] < 0 || position[j] >= n) continue;
          const T* const add = x + position[j] * width + begin;
#pragma GCC ivdep
          for (std::int64_t c = 0; c < count; ++c) sum[c] += add[c];
        }
      }
    });
  });
}

template <class Index>
CpuKernel index_copy(const IndexCopy& op, const CpuLaunch& launch) {
  const std::int64_t rows = launch.outputs[0].shape[0];
  if (rows == 0) return CpuKernel([] {});
  const std::int64_t bytes = static_cast<std::int64_t>(launch.outputs[0].bytes()) / rows;
  const std::int64_t n = launch.inputs[1].numel();
  return CpuKernel([to = launch.out<char>(0), table = launch.in<char>(0),
                    index = launch.in<Index>(1), source = launch.in<char>(2), rows, bytes, n,
                    threads = launch.choice.threads,
                    fault = op.verb.empty() ? CpuFault{} : launch.fault] {
    if (to != table) {
      parallel_for(threads, rows * bytes, 64 * 1024, [=](std::int64_t begin, std::int64_t end) {
        std::memcpy(to + begin, table + begin, static_cast<std::size_t>(end - begin));
      });
    }
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t row = index[i];
      if (row < 0 || row >= rows) fault.report(row);
      if (row < 0 || row >= rows || (i > 0 && index[i - 1] == index[i])) continue;
      std::memcpy(to + row * bytes, source + i * bytes, static_cast<std::size_t>(bytes));
    }
  });
}

}  // namespace

CpuKernel bind(const RunSum&, const CpuLaunch& launch) {
  const bool narrow = launch.inputs[1].element == i32;
  if (launch.inputs[0].element == f32) {
    return narrow ? run_sum<float, std::int32_t>(launch) : run_sum<float, std::int64_t>(launch);
  }
  return narrow ? run_sum<double, std::int32_t>(launch) : run_sum<double, std::int64_t>(launch);
}

CpuKernel bind(const IndexCopy& op, const CpuLaunch& launch) {
  return launch.inputs[1].element == i32 ? index_copy<std::int32_t>(op, launch)
                                         : index_copy<std::int64_t>(op, launch);
}

}  // namespace metronome::METRONOME_ISA
