#include "ops/rules/by_element.h"
#include "ops/structural/structural_rules.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "graph/ir/error.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows.h"

namespace metronome::METRONOME_ISA {
namespace {

constexpr std::int64_t kGrain = 4096;

template <class T>
CpuKernel fill(const Fill& op, const CpuLaunch& launch) {
  return CpuKernel([to = launch.out<T>(0), x = static_cast<T>(op.number),
                    n = launch.outputs[0].numel(), threads = launch.choice.threads] {
    parallel_for(threads, n, kGrain,
                 [&](std::int64_t begin, std::int64_t end) { std::fill(to + begin, to + end, x); });
  });
}

CpuKernel copy(const CpuLaunch& launch) {
  return CpuKernel([to = launch.out<char>(0), from = launch.in<char>(0),
                    n = static_cast<std::int64_t>(launch.outputs[0].bytes()),
                    threads = launch.choice.threads] {
    parallel_for(threads, n, 4 * kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
    });
  });
}

}  // namespace

CpuKernel bind(const Fill& op, const CpuLaunch& launch) {
  return with_element(op.type.element,
                      [&](auto number) { return fill<decltype(number)>(op, launch); });
}

CpuKernel bind(const Constant& op, const CpuLaunch& launch) {
  // The kernel keeps the bytes: the graph may be gone when it runs.
  return CpuKernel([to = launch.out<std::byte>(0), bytes = op.bytes] {
    std::copy(bytes.begin(), bytes.end(), to);
  });
}

CpuKernel bind(const Accumulate&, const CpuLaunch& launch) {
  return bind_rows(add_row(launch.outputs[0].element), {}, launch.outputs[0], launch.output_data[0],
                   {launch.inputs, {launch.input_data.data(), launch.input_data.size()}},
                   launch.choice.threads);
}

CpuKernel bind(const Increment&, const CpuLaunch& launch) {
  return CpuKernel(
      [to = launch.out<std::int64_t>(0), from = launch.in<std::int64_t>(0)] { *to = *from + 1; });
}

CpuKernel bind(const Copy&, const CpuLaunch& launch) { return copy(launch); }

}  // namespace metronome::METRONOME_ISA
