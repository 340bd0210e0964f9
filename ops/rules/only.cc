#include <vector>

#include "ops/rules/candidate.h"

namespace metronome {

std::vector<Candidate> only(const Candidate& candidate) { return {candidate}; }

}  // namespace metronome
