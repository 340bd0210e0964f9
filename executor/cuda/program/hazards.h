// The order constraints between pieces of work, found from the bytes that they touch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace metronome::executor::program {

struct ByteRange {
  const void* begin = nullptr;
  std::size_t bytes = 0;
};

/// The memory that one piece of work (a node's commands, a copy) reads and writes. A range may be
/// in both lists, and ranges of one list may overlap.
struct TouchedMemory {
  std::vector<ByteRange> reads;
  std::vector<ByteRange> writes;
};

/// [item] The earlier items that it must come after, ascending: those that wrote what it reads,
/// and those that read or wrote what it writes. Reduced: an item that another one in the list must
/// itself come after is left out. `items` are in an order in which they may run.
///
/// Time grows with the ranges, not with their bytes; the reduction takes a bit for each pair of
/// items (6 MB for 10,000).
std::vector<std::vector<std::int32_t>> hazards(std::span<const TouchedMemory> items);

}  // namespace metronome::executor::program
