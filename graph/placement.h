// Blocks of bytes, each held for some steps, laid out in as few bytes as greedy orders find.
//
//   bytes
//     |  +-----+
//     |  |  b  |   +-------+           a: steps 0 to 5, b: 0 to 1, c: 3 to 5:
//     |  +-----+---+   c   |           c may lie where b lay, above a
//     |  |       a         |
//     +--+-----------------+--- step
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace metronome {

/// Bytes that are held from step `begin` to step `end`, both included.
struct Block {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::size_t bytes = 0;  ///< a multiple of the alignment, so that every offset found is one

  bool operator==(const Block&) const = default;
};

struct Placement {
  std::vector<std::size_t> offsets;  ///< [block]
  std::size_t bytes = 0;             ///< end of the highest block

  bool operator==(const Placement&) const = default;
};

/// The fullest step: no placement of the blocks takes fewer bytes.
struct Peak {
  std::size_t bytes = 0;
  std::int32_t step = 0;  ///< the first at which that many bytes are held

  bool operator==(const Peak&) const = default;
};
Peak peak_of(std::span<const Block> blocks);

/// The best of several greedy orders, then of a bounded search around the best one; stops at the
/// peak. Deterministic.
Placement place(std::span<const Block> blocks);

}  // namespace metronome
