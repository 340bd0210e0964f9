// How long bytes are held under one order: the planner's view, of which the checker knows nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/control/exclusions.h"
#include "graph/ir/graph.h"
#include "graph/placement/placement.h"
#include "graph/plan/memory_plan.h"
#include "graph/plan/uses.h"

namespace metronome::plan {

/// The steps during which a root holds its bytes, both included: from the step that makes it to the
/// last one that reads it, or to the step before another output takes them over.
struct Life {
  std::int32_t begin = 0;
  std::int32_t end = -1;

  bool operator==(const Life&) const = default;
};

struct Lifetimes {
  /// Runs of arena bytes. Values that take over each other's bytes are one block.
  std::vector<HeldBlock> blocks;
  std::vector<Place> places;  ///< [value]; in the arena: the block's number, offset within it
  std::vector<Life> lives;    ///< [value]; of roots in the arena
};

/// The bytes that a node that runs under a guard may take over.
enum class Takeover : std::uint8_t {
  any,
  /// Bytes of its own guard, so that blocks of several guards share more. An op that would only
  /// copy if it took nothing over (`Op::idle_unless`) takes over any.
  same_guard,
};

/// An output takes over the bytes of an input if its op allows it and the input dies there; of
/// several such inputs whose guards exclude each other, the bytes of all, which are then the same:
///
///   g      [== a ==]           a under g and b under not g share bytes,
///   not g  [== b ==]           and merge(g, a, b) finds its result where it must lie
///   always          [= merge]
Lifetimes lifetimes_of(const ir::Graph& graph, const Uses& uses,
                       const std::vector<std::int32_t>& order, const std::vector<bool>& in_place,
                       const control::NumberedGuards& guards, std::size_t alignment,
                       Takeover takeover = Takeover::any);

}  // namespace metronome::plan
