// The nodes that must run before each node, once assignments are made in place.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/plan/uses.h"

namespace metronome::plan {

/// The running nodes' partial order: by values, by what nodes wait for, by effects, and by storage
/// that is overwritten.
struct Precedence {
  std::vector<std::vector<std::int32_t>> before;  ///< [node] distinct nodes that run before it
  std::vector<std::vector<std::int32_t>> after;   ///< [node] distinct nodes that run after it
  std::vector<bool> in_place;                     ///< [assignment] made over its storage's bytes
};

/// Takes assignments in their order. One is made in place if its value is not readable, its op
/// may write it over an input that is the storage's old value itself, and every other node that
/// reads the old value, views included, can run before; those edges are then part of the order.
Precedence precedence_of(const ir::Graph& graph, const Uses& uses);

}  // namespace metronome::plan
