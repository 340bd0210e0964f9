// Objectives as a whole declaration has them. Internal to graph/builder.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace metronome {

/// A call of `minimize`.
struct MinimizeCall {
  std::int32_t nodes_before = 0;           ///< nodes that were declared before it
  bool trains_all = true;                  ///< it names no parameters
  std::vector<StorageId> parameters = {};  ///< that it is to train, also those that are frozen
};

/// ""a", "b", "c" and 4 more": paths of parameters.
std::string list_paths(const ir::Graph& graph, std::span<const StorageId> parameters);

/// The mistakes of objectives that only a whole declaration shows. `calls`: one for each.
std::vector<std::string> mistakes_of_objectives(const ir::Graph& graph,
                                                std::span<const MinimizeCall> calls);

}  // namespace metronome
