#include "ops/pick.h"

#include <cstring>

#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"

namespace metronome::METRONOME_ISA {
namespace {

constexpr std::int64_t kGrain = 4096;

/// T: unsigned of the element's size, as elements are only moved; all bits zero is the number zero.
template <class T, class Index>
CpuKernel pick(const CpuLaunch& launch) {
  return CpuKernel([to = launch.out<T>(0), x = launch.in<T>(0), index = launch.in<Index>(1),
                    size = launch.inputs[0].shape.back(), n = launch.outputs[0].numel(),
                    threads = launch.choice.threads] {
    parallel_for(threads, n, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t at = index[i];
        to[i] = at >= 0 && at < size ? x[i * size + at] : T(0);
      }
    });
  });
}

template <class T, class Index>
CpuKernel put(const PickGrad& op, const CpuLaunch& launch) {
  if (launch.outputs[0].numel() == 0) return CpuKernel([] {});
  return CpuKernel([to = launch.out<T>(0), g = launch.in<T>(0), index = launch.in<Index>(1),
                    size = op.size, n = launch.inputs[0].numel(), threads = launch.choice.threads] {
    parallel_for(threads, n, kGrain / size + 1, [&](std::int64_t begin, std::int64_t end) {
      std::memset(to + begin * size, 0, static_cast<std::size_t>((end - begin) * size) * sizeof(T));
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t at = index[i];
        if (at >= 0 && at < size) to[i * size + at] = g[i];
      }
    });
  });
}

/// f(element of the values' size, element of the index).
template <class F>
CpuKernel by_types(const CpuLaunch& launch, const F& f) {
  const auto with = [&](auto element) {
    return launch.inputs[1].element == i32 ? f(element, std::int32_t{})
                                           : f(element, std::int64_t{});
  };
  switch (size_of(launch.inputs[0].element)) {
    case 1:
      return with(std::uint8_t{});
    case 4:
      return with(std::uint32_t{});
    default:
      return with(std::uint64_t{});
  }
}

}  // namespace

CpuKernel bind(const Pick&, const CpuLaunch& launch) {
  return by_types(launch, [&](auto element, auto index) {
    return pick<decltype(element), decltype(index)>(launch);
  });
}

CpuKernel bind(const PickGrad& op, const CpuLaunch& launch) {
  return by_types(launch, [&](auto element, auto index) {
    return put<decltype(element), decltype(index)>(op, launch);
  });
}

}  // namespace metronome::METRONOME_ISA
