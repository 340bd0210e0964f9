#include "ops/cast/cast.h"

#include <cstdint>

#include "graph/ir/error.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"

namespace metronome::METRONOME_ISA {
namespace {

constexpr std::int64_t kGrain = 4096;

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
  switch (launch.outputs[0].element) {
    case f32:
      return cast<float, From>(launch);
    case f64:
      return cast<double, From>(launch);
    case i32:
      return cast<std::int32_t, From>(launch);
    case i64:
      return cast<std::int64_t, From>(launch);
    case bool_:
      return cast<bool, From>(launch);
  }
  throw InternalError("an element type out of range");
}

}  // namespace

CpuKernel bind(const Cast&, const CpuLaunch& launch) {
  switch (launch.inputs[0].element) {
    case f32:
      return cast_from<float>(launch);
    case f64:
      return cast_from<double>(launch);
    case i32:
      return cast_from<std::int32_t>(launch);
    case i64:
      return cast_from<std::int64_t>(launch);
    case bool_:
      return cast_from<bool>(launch);
  }
  throw InternalError("an element type out of range");
}

}  // namespace metronome::METRONOME_ISA
