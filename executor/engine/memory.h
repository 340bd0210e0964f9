// The memory that all plans of one executable share: storages and inputs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "executor/engine/block.h"
#include "graph/ir/graph.h"
#include "graph/ir/structural.h"

namespace metronome::executor {

/// One input of the declared graphs. Graphs that declare it with one shape share it; each other
/// shape has memory of its own, so that what was fed to it stays.
struct InputMemory {
  std::string name;
  Type type;
  Block block;
  bool filled = false;      ///< fed once, or handed out to be filled in place
  bool handed_out = false;  ///< the user may write to the block before any step
};

/// The memory of an input that users have tensors over.
struct HandedOutMemory {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  std::size_t input = 0;  ///< index into `Memory::inputs`
};

/// Bytes that live beside the arena.
struct Memory {
  /// Those of all plans, each path once: those that the first graph declares lead.
  std::vector<Storage> storages;
  std::vector<Block> storage_blocks;  ///< as plans keep them: `Storage::kept`
  /// The blocks that users read and write of storages that plans keep in a layout; empty for
  /// others.
  std::vector<Block> plain_blocks;
  std::vector<InputMemory> inputs;
  /// [declared graph][input that it declares, in its own order]: index into `inputs`.
  std::vector<std::vector<std::size_t>> inputs_of;
  std::vector<HandedOutMemory> handed_out;  ///< by address; those of no bytes are left out

  /// The block that users see. If plans keep the storage in a layout, they have a block of their
  /// own: `show` copies theirs to this one, `keep` this one to theirs.
  const Block& plain(std::size_t storage) const;
  void show(std::size_t storage) const;
  void keep(std::size_t storage) const;
  /// Input memory of an `Input` node; throws InternalError for one that was not declared.
  std::size_t find(const Input& input) const;
  std::byte* input(const Input& node) const { return inputs[find(node)].block.data(); }
  /// Notes that the input's memory may be written to before any step.
  void hand_out(std::size_t input);
  /// [StorageId of the graph]: index into `storages`.
  std::vector<std::size_t> storages_of(const ir::Graph& graph) const;
};

}  // namespace metronome::executor
