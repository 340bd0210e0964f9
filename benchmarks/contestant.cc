#include "benchmarks/contestant.h"

#include <ATen/core/Tensor.h>
#include <algorithm>

#include "benchmarks/statistics.h"

namespace metronome::benchmarks {

int steps_per_round(double ms) {
  constexpr double kRoundMs = 25;
  return std::max(kFewestSteps, static_cast<int>(kRoundMs / ms));
}

int steps_per_round(Contestant& contestant) {
  contestant.read(kFewestSteps);
  return steps_per_round(milliseconds([&] { contestant.read(kFewestSteps); }) / kFewestSteps);
}

}  // namespace metronome::benchmarks
