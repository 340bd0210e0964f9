// The device of the checks: the one that a target asks for, or in the dry run one made of the host.
#pragma once

#include "executor/metronome.h"

namespace metronome::gpu_check {

/// The target on that device; libtorch's eager steps beside it. So are the profiles of `plan`.
Target place_on_device(Target target);

}  // namespace metronome::gpu_check
