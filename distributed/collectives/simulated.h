// A world of ranks that are threads of one process.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "distributed/collectives/communicator.h"

namespace metronome::distributed {

/// So many ranks, each for a thread of its own. One that is waiting when another is destroyed, or
/// for longer than `limit`, or beside one that makes another call or one of other sizes, throws
/// RunError; so do all that wait with it.
std::vector<std::unique_ptr<Communicator>> simulated_world(
    int ranks, std::chrono::milliseconds limit = std::chrono::seconds(10));

}  // namespace metronome::distributed
