// Orders in which a graph's nodes may run.
#pragma once

#include <span>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"
#include "graph/plan/schedule.h"
#include "graph/plan/uses.h"

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

/// Those of the schedules whose peak goes down by moving nodes away from the fullest moment
/// (`lower_peak`), so moved, the lowest first; `uses` says where values lie. None where nodes go on
/// beside the step: an order of fewer bytes may wait for them at once. None on a device
/// (`Settings::skips` is false) without `Settings::plan_work`, or with regions: there nodes that
/// share bytes wait for each other, and may enter regions more often. None for no `plan_work`.
std::vector<Schedule> lowered_schedules(const ir::Graph& graph, const Settings& settings,
                                        const Uses& uses, std::span<const Schedule> from);

}  // namespace metronome::plan
