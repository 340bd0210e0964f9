// A graph joined to the ranks that run it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "distributed/collectives/communicator.h"
#include "executor/engine/ranks.h"

namespace metronome::distributed {

/// For `CompileOptions::world`. `bucket_bytes`: of gradients that are reduced at once, if that is
/// not to be measured.
std::shared_ptr<const executor::Ranks> ranks_over(std::shared_ptr<Communicator> communicator,
                                                  std::optional<std::size_t> bucket_bytes = {});

}  // namespace metronome::distributed
