// Medians and spreads of repeated measurements.
#pragma once

#include <functional>
#include <vector>

namespace metronome::statistics {

/// Samples of one quantity. An empty set has zeros.
struct Samples {
  std::vector<double> values;  ///< in the order they were taken

  double median() const;
  /// Median absolute deviation from the median.
  double mad() const;
  /// 1.4826 x MAD: the standard deviation where the noise is normal (Rousseeuw and Croux, 1993).
  double spread() const { return 1.4826 * mad(); }
};

/// Milliseconds a step of two contestants, one sample a round.
struct Rounds {
  Samples a;
  Samples b;

  /// a / b of each round: noise that a round brings to both cancels.
  Samples ratios() const;
};

/// One side of a comparison: takes a number of steps, and how many of them a round has.
struct Side {
  std::function<void(int)> take;
  int steps = 1;
};

/// Times `rounds` rounds, in each of which both sides take their steps; they alternate in going
/// first.
Rounds interleave(const Side& a, const Side& b, int rounds);

/// Wall time of one call in milliseconds.
double milliseconds(const std::function<void()>& call);

}  // namespace metronome::statistics
