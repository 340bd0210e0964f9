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

/// A portfolio of greedy orders, each once, those with the lowest peak bytes first, deterministic.
/// Where a region that is entered costs something (`Settings::skips` is false), all with nodes of
/// one guard together, unless others have a peak that is lower by a tenth.
///
/// An assignment is made in place where its value is not readable, its op may write it over the
/// storage's old value, and every other read of the old value, views included, comes before or can
/// be ordered so. Throws InternalError where a readable or assigned value is an input or a
/// storage's old value, or a view of one: `materialize` puts a copy there.
std::vector<Schedule> schedules(const Graph& graph, const Settings& settings);

/// The first of them.
Schedule schedule(const Graph& graph, const Settings& settings);

}  // namespace metronome
