// How the kernels of a captured step lie beside each other.
#pragma once

#include <span>

#include "executor/engine/profile.h"

namespace metronome::executor {

struct StepGaps {
  double idle = 0;     ///< microseconds in which none ran, between the first and the last
  double overlap = 0;  ///< of their sum, counted more than once
};

/// Gaps of one step, whose runs are ordered by their beginning.
StepGaps gaps_of(std::span<const KernelRun> runs);

}  // namespace metronome::executor
