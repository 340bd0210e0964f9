// A graph joined to the ranks that run it.
#pragma once

#include <memory>

#include "distributed/collectives/communicator.h"
#include "executor/engine/ranks.h"

namespace metronome::distributed {

/// For `CompileOptions::world`.
std::shared_ptr<const executor::Ranks> ranks_over(std::shared_ptr<Communicator> communicator);

}  // namespace metronome::distributed
