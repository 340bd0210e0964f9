// Where a step's time goes, as tables.
#pragma once

#include <span>
#include <string>

#include "executor/metronome.h"

namespace metronome::commands {

/// Times the kernels of some training steps on random numbers in `inputs` (integers are zero), and
/// says what they took: by kind of kernel, and the longest ones.
std::string profile_of(Executable& executable, std::span<const Value> inputs);

}  // namespace metronome::commands
