// The tasks of a step that stand in conditional nodes of its graph.
//
// A conditional node has bodies, each under a guard, of which no two are ever true together: one
// body is an IF node, several are a SWITCH node, as of the branches of a choice. `flat` regions
// hold tasks of one guard. `nested` ones also hold regions whose guards imply theirs, and the
// guards that are computed on the way: a loop is one node in the graph, its second iteration's, in
// whose body stands that of the third; where it halts the rest costs nothing.
//
// A guard that is computed in a body has no value where that body does not run. If something later
// reads the guard, all other bodies, and one for the case that no guard is true, write "false"
// there; that is its value, as it implies the guard of its body.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "executor/cuda/program/program.h"
#include "graph/control/regions.h"

namespace metronome::executor::program {

struct Body;

/// A task, or a conditional node.
struct RegionPart {
  std::int32_t task = -1;    ///< or negative
  std::vector<Body> bodies;  ///< of a conditional node; at most the last is without a guard
};
using RegionParts = std::vector<RegionPart>;

/// A part of a conditional node that runs if its guard is true, or, without one, if no other body
/// of the node does.
struct Body {
  ValueId guard = {};
  const bool* guard_at = nullptr;
  RegionParts parts = {};
  std::vector<Command> clears_first = {};
  std::vector<Command> clears_last = {};
};

enum class Nesting : std::uint8_t { flat, nested };

/// All tasks, each after those that `after`, as of `order_of`, says it comes after, in as few
/// conditional nodes as taking them region by region makes. Tasks that may not be conditional run
/// always.
RegionParts make_regions(std::span<const Task> tasks,
                         std::span<const std::vector<std::int32_t>> after,
                         const control::Regions& guards, Nesting nesting);

/// Conditional nodes, those in bodies included.
int regions_in(const RegionParts& parts);

/// Bodies within bodies: 0 without a conditional node, 1 where none stands in another.
int depth_of(const RegionParts& parts);

}  // namespace metronome::executor::program
