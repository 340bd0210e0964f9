// An op's distribution as the kernels have it.
#pragma once

#include "ops/kernel/draws.h"
#include "ops/random/random.h"

namespace metronome {

inline cuda::DrawRule draw_rule(const Random& op) {
  return {static_cast<cuda::DrawKind>(op.kind), op.low, op.high - op.low};
}

}  // namespace metronome
