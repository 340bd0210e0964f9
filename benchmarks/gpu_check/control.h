// Loops and branches that data decide, inside of one graph launch.
#pragma once

#include <functional>

#include "benchmarks/gpu_check/outcomes.h"
#include "executor/metronome.h"

namespace metronome::gpu_check {

/// A loop of 1 to 16 rounds, a choice of three branches and a sparse mixture of experts, one after
/// the other: x and target f32 [32, 64]; `rounds` and `which` i32 scalars.
struct Steered {
  Graph graph{"steered"};
  Value x, target, rounds, which;

  static constexpr int kRounds = 16;
  Steered();
  /// What step `step` is fed; `rounds` as given.
  std::vector<Feed> feeds(int step, int rounds) const;
};

/// Gives a target its device.
using Place = std::function<Target(Target)>;

/// Steps whose rounds and branches vary: in every bit as the kernels one by one.
void regions_are_stepwise(Outcome& outcome, const Place& place, Conditions conditions, int steps);

/// Steps of one round take less time than steps of all, by conditional nodes of both kinds.
void skipping_shows(Outcome& outcome, const Place& place, int steps);

}  // namespace metronome::gpu_check
