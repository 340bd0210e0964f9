// How many bytes of gradients ranks reduce at once.
#pragma once

#include <cstddef>

#include "distributed/collectives/communicator.h"

namespace metronome::distributed {

/// Returns the bucket size in bytes for gradients of `gradients` bytes in all: one bucket of all of
/// them if no exchange goes on while rank 0 computes. Otherwise the size of least cost: each bucket
/// takes the fixed time of an exchange beside that of its bytes, and nothing hides the last one.
/// All ranks measure it together and return the same size.
std::size_t best_bucket_bytes(Communicator& ranks, std::size_t gradients);

}  // namespace metronome::distributed
