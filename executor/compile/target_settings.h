// What a target tells the passes and the planner.
#pragma once

#include "executor/engine/target.h"
#include "graph/ir/settings.h"

namespace metronome::executor::compile {

/// True where the plan is for a device's kernels. `eager` has a plan for the CPU, which it does not
/// run.
bool plans_for_device(const Target& target);

/// The settings of a plan, as `compile` makes it. For a device without `buckets`, of which it tries
/// several.
Settings settings_for(const Target& target, Mode mode);

}  // namespace metronome::executor::compile
