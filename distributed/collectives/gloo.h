// Ranks that are processes, over Gloo.
#pragma once

#include <chrono>
#include <memory>

#include "distributed/collectives/communicator.h"
#include "distributed/faults/watch.h"
#include "distributed/store/environment.h"
#include "distributed/store/store.h"

namespace metronome::distributed {

struct GlooLimits {
  /// For one call, in which others may be late.
  Milliseconds call{600'000};
  WatchLimits watch = {};
};

/// This rank's end of a world that meets in the store; returns when each rank is connected to each
/// other one. At least two ranks. libtorch's ProcessGroupGloo, beside a Watch: if a rank is lost,
/// calls throw RunError with its number and how, or the process ends (distributed/faults/watch.h);
/// no further call succeeds. Throws RunError if the ranks do not connect, and if the interface is
/// none, or one that other machines cannot reach.
std::unique_ptr<Communicator> gloo(const Store& store, const Environment& own,
                                   const GlooLimits& limits = {});

}  // namespace metronome::distributed
