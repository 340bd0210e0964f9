// Loops and branches that data decide, inside of one graph launch.
#pragma once

#include <cstdint>
#include <functional>

#include "benchmarks/gpu_check/outcomes.h"
#include "executor/metronome.h"

namespace metronome::gpu_check {

struct SteeredSize {
  std::int64_t rows = 32, width = 64;
};

/// Enough where threads of a device made of the host are slow.
inline constexpr SteeredSize kNarrow{.rows = 8, .width = 16};

/// A loop of 1 to 16 rounds, a choice of three branches and a sparse mixture of experts, one after
/// the other: x and target f32 [rows, width]; `rounds` and `which` i32 scalars.
struct SteeredModel {
  const SteeredSize size;
  Graph graph{"steered"};
  Value x, target, rounds, which;

  static constexpr int kRounds = 16;
  explicit SteeredModel(SteeredSize size = {});
  /// Returns the feeds of step `step`; `rounds` as given.
  std::vector<Feed> feeds(int step, int rounds) const;
};

/// Gives a target its device.
using Placer = std::function<Target(Target)>;

/// Steps whose rounds and branches vary: in every bit as the kernels one by one.
void regions_are_stepwise(Outcome& outcome, const Placer& place, Conditions conditions, int steps,
                          SteeredSize size = {});

/// Steps of one round take less time than steps of all, by conditional nodes of both kinds.
void skipping_shows(Outcome& outcome, const Placer& place, int steps, SteeredSize size = {});

}  // namespace metronome::gpu_check
