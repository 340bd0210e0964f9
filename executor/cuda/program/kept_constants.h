// Values of a step that are the same each time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "graph/ir/graph.h"
#include "ops/cuda/launch.h"

namespace metronome::executor::program {

/// Constants of a plan's graph that nobody but kernels reads. They are kept beside the arena, so
/// that no step writes them; their places in the arena are still there, for what is made over them.
class KeptConstants {
 public:
  KeptConstants(const ir::Graph& graph, ConstantMemory& memory);

  bool has(std::int32_t node) const { return kept_.contains(node); }
  /// The address of such a value, or of a view of one; null for every other value.
  const std::byte* find(ValueId id) const;

 private:
  const ir::Graph& graph_;
  std::map<std::int32_t, const std::byte*> kept_;  // by node
};

}  // namespace metronome::executor::program
