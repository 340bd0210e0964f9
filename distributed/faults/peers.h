// Connections between each two ranks.
#pragma once

#include <vector>

#include "distributed/store/environment.h"
#include "distributed/store/store.h"
#include "executor/support/descriptor.h"

namespace metronome::distributed {

/// [rank] A socket to each other rank; none at this one's own place. Returns when all are there;
/// throws RunError if they are not within the limit.
std::vector<executor::Descriptor> connect_peers(const Store& store, const Environment& own,
                                                Milliseconds limit);

}  // namespace metronome::distributed
