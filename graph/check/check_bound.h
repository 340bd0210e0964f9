// Whether a plan says truly how many bytes its values hold. It shares no code with the planner.
#pragma once

#include "graph/check/checked.h"

namespace metronome::check {

/// The plan's `held_bytes` is the most that is held at any step, and its lower bound is no more.
/// After `check_writes`.
Fault check_bound(const Checked& c);

}  // namespace metronome::check
