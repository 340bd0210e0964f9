// The order in which nodes run.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/passes/settings.h"

namespace metronome {

/// An order of a graph's nodes, and which storages are updated in place. Nodes without a kernel
/// (Input, Read, views) are in the order too: they cost nothing.
struct Schedule {
  std::vector<std::int32_t> order;  ///< node indices; each once
  /// [assignment] true: its value is made over the storage's own bytes; false: it lives in the
  /// arena, in its readable block or in another storage, and is copied at the end of the step.
  std::vector<bool> in_place;
  std::int64_t peak_bytes = 0;  ///< largest sum of live arena bytes over the order, without scratch

  bool operator==(const Schedule&) const = default;
};

/// The best of a portfolio of greedy orders by peak bytes, the earlier one of equals;
/// deterministic.
///
/// An assignment is made in place where its value is not readable, its op may write it over the
/// storage's old value, and every other read of the old value, views included, comes before or can
/// be ordered so. Throws InternalError where a readable or assigned value is an input or a
/// storage's old value, or a view of one: `materialize` puts a copy there.
Schedule schedule(const Graph& graph, const Settings& settings);

}  // namespace metronome
