// An op's distribution, and its limits, as the kernels have them.
#pragma once

#include <cstddef>

#include "ops/kernel/draws.h"
#include "ops/random/random.h"

namespace metronome {

inline cuda::DrawRule draw_rule(const Random& op) {
  return {static_cast<cuda::DrawKind>(op.kind), op.low, op.high - op.low};
}

/// Launch: a CpuLaunch or a CudaLaunch.
template <class T, class Launch>
cuda::DrawLimits<T> draw_limits(const Random& op, const Launch& launch) {
  const auto limits = op.limits();
  if (!limits) return {};
  const auto operand = static_cast<std::size_t>(limits->operand);
  return {launch.template in<T>(operand), launch.inputs[operand].numel(), limits->least,
          limits->most};
}

}  // namespace metronome
