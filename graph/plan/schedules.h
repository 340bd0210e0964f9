// Orders in which a graph's nodes may run.
#pragma once

#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"
#include "graph/plan/schedule.h"

namespace metronome::plan {

/// A portfolio of greedy orders, each once, those with the lowest peak bytes first, deterministic.
/// If entering a region costs something (`Settings::skips` is false), all of them keep nodes of one
/// guard together, unless others have a peak that is lower by a tenth.
///
/// An assignment is made in place if its value is not readable, its op may write it over the
/// storage's old value, and every other read of the old value, views included, comes before or can
/// be ordered so. Throws InternalError if a readable or assigned value is an input or a
/// storage's old value, or a view of one: `materialize` puts a copy there.
std::vector<Schedule> schedules(const ir::Graph& graph, const Settings& settings);

/// The first of them.
Schedule schedule(const ir::Graph& graph, const Settings& settings);

}  // namespace metronome::plan
