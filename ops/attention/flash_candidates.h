// The choice among one kernel. A vector made in the kernels' own files brings their instruction set
// into the standard library's code, which runs on every machine (third_party/isa_test.sh).
#pragma once

#include <vector>

#include "ops/rules/candidate.h"

namespace metronome {

std::vector<Candidate> only(const Candidate& candidate);

}  // namespace metronome
