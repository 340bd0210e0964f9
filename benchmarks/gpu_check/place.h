// The device of the checks: CUDA device 0, or in the dry run a device made of the host.
#pragma once

#include "executor/metronome.h"

namespace metronome::gpu_check {

/// The target on that device; libtorch's eager steps beside it. So are the profiles of `plan`.
Target placed(Target target);

}  // namespace metronome::gpu_check
