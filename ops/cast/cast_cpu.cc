#include "ops/cast/cast.h"

#include <cstdint>

#include "graph/ir/error.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {
namespace {

template <class To, class From>
CpuKernel cast(const CpuLaunch& launch) {
  return CpuKernel([to = launch.out<To>(0), from = launch.in<From>(0),
                    n = launch.outputs[0].numel(), threads = launch.choice.threads] {
    parallel_for(threads, n, kGrain, [to, from](std::int64_t begin, std::int64_t end) {
    // In place means the same index, so no element is written before it is read.
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<To>(from[i]);
    });
  });
}

template <class From>
CpuKernel cast_from(const CpuLaunch& launch) {
  return with_element(launch.outputs[0].element,
                      [&](auto to) { return cast<decltype(to), From>(launch); });
}

}  // namespace

CpuKernel bind(const Cast&, const CpuLaunch& launch) {
  return with_element(launch.inputs[0].element,
                      [&](auto from) { return cast_from<decltype(from)>(launch); });
}

}  // namespace metronome::METRONOME_ISA
