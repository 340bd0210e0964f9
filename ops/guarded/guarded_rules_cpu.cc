#include <algorithm>
#include <cstring>

#include "ops/cpu/parallel.h"
#include "ops/cpu/rows.h"
#include "ops/guarded/guarded_rules.h"
#include "ops/rules/by_element.h"
#include "ops/rules/mistake.h"

namespace metronome::METRONOME_ISA {
namespace {

constexpr std::int64_t kBytesGrain = 1 << 14;  // bytes

template <class T>
CpuKernel guard(const Guard& op, const CpuLaunch& launch) {
  return CpuKernel([to = launch.out<bool>(0), decider = launch.in<T>(0),
                    parent = op.nested ? launch.in<bool>(1) : nullptr, when = op.when,
                    last = op.cases - 1, fault = launch.fault] {
    if (parent != nullptr && !*parent) {
      *to = false;
      return;
    }
    const auto outcome = static_cast<std::int64_t>(*decider);
    if (outcome < 0 || outcome > last) fault.report(outcome);
    *to = std::clamp<std::int64_t>(outcome, 0, last) == when;
  });
}

void copy(std::byte* to, const std::byte* from, std::int64_t bytes, int threads) {
  if (to == from) return;
  parallel_for(threads, bytes, kBytesGrain, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace

CpuKernel bind(const Guard& op, const CpuLaunch& launch) {
  return with_element(launch.inputs[0].element, [&](auto x) -> CpuKernel {
    if constexpr (std::is_integral_v<decltype(x)>) return guard<decltype(x)>(op, launch);
    own_mistake("a guard that a floating number decides");
  });
}

CpuKernel bind(const Merge& op, const CpuLaunch& launch) {
  std::vector<const bool*> guards;
  std::vector<const std::byte*> values;
  for (int k = 0; k < op.branches; ++k) {
    guards.push_back(launch.in<bool>(2 * k));
    values.push_back(launch.in<std::byte>(2 * k + 1));
  }
  const std::byte* otherwise = op.otherwise ? launch.in<std::byte>(2 * op.branches) : nullptr;
  return CpuKernel([to = launch.out<std::byte>(0), guards, values, otherwise,
                    bytes = static_cast<std::int64_t>(launch.outputs[0].bytes()),
                    threads = launch.choice.threads] {
    for (std::size_t k = 0; k < guards.size(); ++k) {
      if (*guards[k]) return copy(to, values[k], bytes, threads);
    }
    if (otherwise != nullptr) return copy(to, otherwise, bytes, threads);
    std::memset(to, 0, static_cast<std::size_t>(bytes));
  });
}

CpuKernel bind(const AccumulateIf&, const CpuLaunch& launch) {
  const CpuKernel add =
      bind_rows(add_row(launch.outputs[0].element), {}, launch.outputs[0], launch.output_data[0],
                {launch.inputs.first(2), {launch.input_data.data(), 2}}, launch.choice.threads);
  return CpuKernel([add, guard = launch.in<bool>(2), to = launch.out<std::byte>(0),
                    sum = launch.in<std::byte>(0),
                    bytes = static_cast<std::int64_t>(launch.outputs[0].bytes()),
                    threads = launch.choice.threads] {
    if (*guard) {
      add();
    } else {
      copy(to, sum, bytes, threads);
    }
  });
}

}  // namespace metronome::METRONOME_ISA
