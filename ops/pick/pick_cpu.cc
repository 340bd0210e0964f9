#include "ops/pick/pick.h"

#include <cstring>

#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {
namespace {

/// Stands for "no index is ignored": out of range, so no index that is looked up equals it.
constexpr std::int64_t kNone = -1;

/// T: unsigned of the element's size, as elements are only moved; all bits zero is the number zero.
template <class T, class Index>
CpuKernel pick(const Pick& op, const CpuLaunch& launch) {
  return CpuKernel([to = launch.out<T>(0), x = launch.in<T>(0), index = launch.in<Index>(1),
                    size = launch.inputs[0].shape.back(), n = launch.outputs[0].numel(),
                    ignored = op.ignored.value_or(kNone), ignores = op.ignored.has_value(),
                    fault = launch.fault, threads = launch.choice.threads] {
    parallel_for(threads, n, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t at = index[i];
        if (at >= 0 && at < size && at != ignored) {
          to[i] = x[i * size + at];
        } else {
          to[i] = T(0);
          if (!ignores || at != ignored) fault.report(at);
        }
      }
    });
  });
}

template <class T, class Index>
CpuKernel put(const PickGrad& op, const CpuLaunch& launch) {
  if (launch.outputs[0].numel() == 0) return CpuKernel([] {});
  return CpuKernel([to = launch.out<T>(0), g = launch.in<T>(0), index = launch.in<Index>(1),
                    size = op.size, n = launch.inputs[0].numel(),
                    ignored = op.ignored.value_or(kNone), threads = launch.choice.threads] {
    parallel_for(threads, n, kGrain / size + 1, [&](std::int64_t begin, std::int64_t end) {
      std::memset(to + begin * size, 0, static_cast<std::size_t>((end - begin) * size) * sizeof(T));
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t at = index[i];
        if (at >= 0 && at < size && at != ignored) to[i * size + at] = g[i];
      }
    });
  });
}

/// f(element of the values' size, element of the index).
template <class F>
CpuKernel by_types(const CpuLaunch& launch, const F& f) {
  return with_size(size_of(launch.inputs[0].element), [&](auto element) {
    return launch.inputs[1].element == i32 ? f(element, std::int32_t{})
                                           : f(element, std::int64_t{});
  });
}

}  // namespace

CpuKernel bind(const Pick& op, const CpuLaunch& launch) {
  return by_types(launch, [&](auto element, auto index) {
    return pick<decltype(element), decltype(index)>(op, launch);
  });
}

CpuKernel bind(const PickGrad& op, const CpuLaunch& launch) {
  return by_types(launch, [&](auto element, auto index) {
    return put<decltype(element), decltype(index)>(op, launch);
  });
}

}  // namespace metronome::METRONOME_ISA
