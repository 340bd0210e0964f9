// Positions to rows, one after the other, as CPUs do it.
#pragma once

#include <cstdint>

#include "ops/kernel/shuffle.h"
#include "ops/shuffle/shuffle.h"

namespace metronome {

/// Writes the rows of positions [begin, end). Neighbours are often of one epoch, whose order is
/// made once.
inline void shuffle_positions(const Shuffle& op, std::int64_t seed, const std::int64_t* positions,
                              std::int64_t* rows, std::int64_t begin, std::int64_t end) {
  const auto count = static_cast<std::uint64_t>(op.rows), s = static_cast<std::uint64_t>(seed);
  std::uint64_t epoch = 0;
  cuda::ShuffledOrder order(s, op.key, epoch, count);
  for (std::int64_t i = begin; i < end; ++i) {
    const auto position = static_cast<std::uint64_t>(positions[i]);
    if (position / count != epoch) {
      epoch = position / count;
      order = cuda::ShuffledOrder(s, op.key, epoch, count);
    }
    rows[i] = static_cast<std::int64_t>(order.at(position % count));
  }
}

}  // namespace metronome
