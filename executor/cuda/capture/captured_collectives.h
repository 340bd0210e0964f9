// Collectives as a graph makes them, beside the same calls uncaptured.
#pragma once

#include <string>

#include "executor/cuda/driver/driver.h"

namespace metronome::executor::capture {

/// Runs collectives of prepared commands, each in a graph of its own. A library may add the numbers
/// of ranks in another order there than uncaptured, by another algorithm. All ranks make the same
/// calls; each call makes up to three collectives.
class CapturedCollectives {
 public:
  CapturedCollectives(CudaDriver& driver, CudaStream stream) : driver_(driver), stream_(stream) {}

  /// Returns when it is made; its numbers are those of the graph. `command` is a collective.
  void run(const Command& command);
  /// Tells of the first number that another order of adding does not explain: "all_reduce sum of
  /// f32 [6]: element 2 is 3 in a graph and 4 uncaptured, while orders of adding differ by 1.4e-06
  /// at most". Empty if there is none.
  const std::string& failure() const { return failure_; }

 private:
  CudaDriver& driver_;
  CudaStream stream_;
  std::string failure_;
};

}  // namespace metronome::executor::capture
