// Where a shipped model's step spends its time.
#pragma once

#include <span>
#include <string>

#include "executor/metronome.h"

namespace metronome::commands {

/// Of some training steps on random numbers in `inputs` (integers are zero).
Profile profile_of(Executable& executable, std::span<const Value> inputs);

/// {"steps": 20, "kernels": [{"kernel": "gelu \"gelu\" (mlp.cc:5)", "op": "gelu", "path": "gelu",
/// "phase": "forward", "us": 1.2, "runs": 1.0, "bytes": 4096, "flops": 512, "timed_by": "copies in
/// a graph"}, ...]}: every kernel; microseconds and runs a step, bytes and operations a run.
std::string to_json(const Profile& profile);

}  // namespace metronome::commands
