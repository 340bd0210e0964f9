// Whether each value lies where it may. It shares no code with the planner.
#pragma once

#include "graph/check/checked_plan.h"

namespace metronome::check {

/// Finds which roots must lie beside the arena: in a readable block, or in the storage that they
/// are assigned to in place.
Mistake find_fixed(CheckedPlan& c);
/// Each value lies where it must, or somewhere in the arena; so does scratch. After `find_fixed`,
/// and with the values that lie inside others.
Mistake check_places(const CheckedPlan& c);

}  // namespace metronome::check
