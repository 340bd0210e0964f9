// Ranks that are processes, over Gloo.
#pragma once

#include <chrono>
#include <memory>

#include "distributed/collectives/communicator.h"
#include "distributed/store/environment.h"
#include "distributed/store/store.h"

namespace metronome::distributed {

struct GlooLimits {
  Milliseconds connect{30'000};
  /// For one call, in which others may be late.
  Milliseconds call{600'000};
};

/// This rank's end of a world that meets in the store; returns when each rank is connected to each
/// other one. At least two ranks. libtorch's ProcessGroupGloo: if a rank dies the others' calls
/// throw at once, if it stands still they throw after `limits.call`, and in either case no further
/// call succeeds. Throws RunError if the ranks do not connect, and if the interface is none, or one
/// that other machines cannot reach.
std::unique_ptr<Communicator> gloo(const Store& store, const Environment& own,
                                   const GlooLimits& limits = {});

}  // namespace metronome::distributed
