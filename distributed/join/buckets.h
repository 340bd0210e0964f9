// How many bytes of gradients ranks reduce at once.
#pragma once

#include <cstddef>

#include "distributed/collectives/communicator.h"

namespace metronome::distributed {

/// Of so many bytes in all: all of them where nothing goes on while rank 0 computes. Else the
/// bucket that costs the least, as each takes the time of an exchange beside that of its bytes, and
/// nothing hides the last one; measured by all ranks together, and the same on all.
std::size_t best_bucket_bytes(Communicator& ranks, std::size_t gradients);

}  // namespace metronome::distributed
