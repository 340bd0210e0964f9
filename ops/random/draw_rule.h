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
  const auto bounds = op.bounds();
  if (!bounds) return {};
  constexpr std::size_t kOperand = DrawBounds::kOperand;
  return {launch.template in<T>(kOperand), launch.inputs[kOperand].numel(), bounds->least,
          bounds->most};
}

}  // namespace metronome
