// Whether planned steps compute what libtorch's eager autograd computes.
#pragma once

#include <string>
#include <vector>

#include "models/models.h"

namespace metronome::benchmarks {

struct Agreement {
  bool agree = true;
  /// The largest relative difference of a loss or gradient that was seen, each relative to what its
  /// tolerance is relative to.
  double max_difference = 0;
  std::string disagreement;    ///< the first one, with both numbers; empty where all agree
  std::vector<double> losses;  ///< of the planned steps
  std::string planned;         ///< the target of the one side: "cpu_replay"
  std::string eager;           ///< of the other: "eager"
};

/// Ten f32 steps, eager's storage set to planned's before each of them. Losses agree to 1e-5
/// relative; each gradient's difference is at most 1e-4 of the larger of its own norm and 1e-4 of
/// the global gradient norm; where sums cancel to less than f32 holds, as before a batch norm,
/// planned's gradient is at most 4 times as far from f64's as eager's is. Where a step has a
/// gradient that is not, as rounding may have decided the sign at a relu, it is held to f64 node by
/// node on a CPU (check_model), and on a device to those bounds all the same. The optimizer, fed
/// planned's gradient, makes what libtorch's fused Adam does, to 1e-6 of the largest magnitude.
/// Both targets are in IEEE f32.
Agreement agreement_f32(const models::ModelEntry& entry, models::Scale scale, int threads,
                        const Target& planned = cpu_replay(), const Target& beside = eager(),
                        int steps = 10);

/// Ten free-running f64 steps from equal storage: every loss, gradient and parameter within 1e-9 of
/// the model's largest gradient or parameter.
Agreement agreement_f64(const models::ModelEntry& entry, models::Scale scale, int threads,
                        int steps = 10);

}  // namespace metronome::benchmarks
