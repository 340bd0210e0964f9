// Whether anything is written over what is still to be read. It shares no code with the planner.
#pragma once

#include "graph/check/checked_plan.h"

namespace metronome::check {

/// Replays the order and keeps account of who owns which bytes. Finds `taken_over`. After
/// `check_places`.
Mistake check_writes(CheckedPlan& c);

}  // namespace metronome::check
