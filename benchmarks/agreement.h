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
  int doubtful = 0;            ///< steps of which rounding may have decided something
  int judged = 0;              ///< of those: held to f64 node by node
  std::vector<double> losses;  ///< of the planned steps
  std::string planned;         ///< the target of the one side: "cpu_replay"
  std::string eager;           ///< of the other: "eager"
};

/// "rounding decides in 4 steps, of which 2 were held to f64"; empty where no step is doubtful.
std::string doubts(const Agreement& agreement);

/// Ten f32 steps, eager's storage set to planned's before each of them. Losses agree to 1e-5
/// relative; each gradient's difference is at most 1e-4 of the larger of its own norm and 1e-4 of
/// the global gradient norm; where sums cancel to less than f32 holds, as before a batch norm,
/// planned's gradient is at most 4 times as far from f64's as eager's is. A step that has a
/// gradient that is not is doubtful, as rounding may have decided the sign at a relu: it is held to
/// f64 node by node (check_model). On a CPU all such steps are; on a device the first, and those
/// after it that are begun within half a minute, on all of the CPU's cores. The optimizer, fed
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
