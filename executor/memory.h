// What all plans of one executable share: storages, inputs, and where readable values were left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "executor/block.h"
#include "graph/graph.h"

namespace metronome {

/// One input of the declared graph.
struct InputMemory {
  std::string name;
  ValueId declared;
  Type type;
  Block block;
  bool filled = false;      ///< fed once, or handed out to be filled in place
  bool handed_out = false;  ///< the user may write to the block before any step
};

/// Bytes that live beside the arena.
struct Memory {
  /// Indexed by StorageId. Only the storages of the plan that has the most of them: its moments.
  std::vector<Storage> storages;
  std::vector<Block> storage_blocks;
  std::vector<InputMemory> inputs;

  /// Input memory by name; throws InternalError for a name that was not declared.
  std::byte* input(const std::string& name) const;
};

/// Storages at their initial values for this seed; inputs zeroed. `storages` may hold more than the
/// declared graph: the optimizer's moments.
Memory make_memory(const Graph& declared, std::span<const Storage> storages, std::uint64_t seed);

}  // namespace metronome
