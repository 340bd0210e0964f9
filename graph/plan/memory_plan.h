// The place of every value: a byte offset in one arena.
//
//   step    0    1    2    3    4
//   a     [====]                      a value lives from the step that makes it
//   b          [=========]            to the last step that reads it or a view of it;
//   c               [=========]       two values whose lives touch never share a byte,
//                                     but for an output that its op lets overwrite a dying input
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/ir/node.h"

namespace metronome::plan {

/// The place of a value's bytes.
struct Place {
  enum class Kind : std::uint8_t {
    none,      ///< a saved output that nothing reads: no bytes
    arena,     ///< `offset` bytes into the arena
    input,     ///< the memory of the Input node `index`, `offset` bytes into it (views)
    storage,   ///< the storage `index`, `offset` bytes into it
    readable,  ///< readable block `index`, beside the arena, `offset` bytes into it
  };
  Kind in = Kind::none;
  /// input: the Input node; storage: its StorageId; readable: the first Readable of the block
  std::int32_t index = -1;
  std::size_t offset = 0;  ///< bytes

  bool operator==(const Place&) const = default;
};

/// A value that holds arena bytes at the moment when the arena is fullest, for the report.
struct Holder {
  ValueId value;
  std::size_t bytes = 0;

  bool operator==(const Holder&) const = default;
};

struct MemoryPlan {
  std::vector<std::vector<Place>> places;  ///< [node][output]
  std::size_t arena_bytes = 0;
  /// Largest sum of live bytes over the order, scratch included, sizes rounded up to the alignment.
  std::size_t held_bytes = 0;
  /// The planner weighs plans that differ in the order and in which values take over others' bytes.
  /// This is the smallest `held_bytes` of them: no placement of any of them takes fewer bytes.
  /// Lowered orders (`lowered_schedules`) count where one of them is taken.
  std::size_t lower_bound = 0;
  /// No layout of this order, with these values taken over, takes fewer bytes: `held_bytes`, or
  /// more where a search has proven that.
  std::size_t least_bytes = 0;
  std::vector<Holder> holders;  ///< all values live at the peak, largest first
  /// [node] Offset in the arena of the scratch bytes that the node has while it runs; meaningful if
  /// it has any.
  std::vector<std::size_t> scratch_offsets;
  /// [readable] bytes of its block if it is the first readable in that block, else 0.
  std::vector<std::size_t> readable_bytes;

  bool operator==(const MemoryPlan&) const = default;
};

}  // namespace metronome::plan
