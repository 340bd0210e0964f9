#include "executor/engine/step_gaps.h"

#include <algorithm>

namespace metronome::executor {

StepGaps gaps_of(std::span<const KernelRun> runs) {
  StepGaps gaps;
  double sum = 0, busy_until = runs.empty() ? 0 : runs.front().begin;
  for (const KernelRun& run : runs) {
    gaps.idle += std::max(0.0, run.begin - busy_until);
    busy_until = std::max(busy_until, run.begin + run.kernel.microseconds);
    sum += run.kernel.microseconds;
  }
  if (!runs.empty()) {
    gaps.overlap = std::max(0.0, sum + gaps.idle - (busy_until - runs.front().begin));
  }
  return gaps;
}

}  // namespace metronome::executor
