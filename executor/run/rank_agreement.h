// Calls that ranks make together. Internal to executor/.
#pragma once

#include <string>

#include "executor/engine/ranks.h"

namespace metronome::executor {

/// Waits for the other ranks; throws RunError, on all of them, where they do not say the same of
/// the call that they are about to make. `prefix` names the graph.
void require_same_call(const Ranks& ranks, const std::string& prefix, const std::string& call);

}  // namespace metronome::executor
