// A placement made lower by placing glued blocks first, then their parts.
#pragma once

#include <cstddef>
#include <span>

#include "graph/placement/placement.h"

namespace metronome::plan {

/// Returns the lowest placement that it finds, `best` if it finds none below that. Ends at `enough`
/// bytes, or behind so much work (SearchLimits): of few blocks behind a part of it, but a little is
/// done in any case. Looks at no blocks with spans, nor where `can_reinsert` does not hold.
/// Deterministic.
Placement lower_by_levels(std::span<const HeldBlock> blocks, Placement best, std::size_t enough,
                          std::size_t work);

}  // namespace metronome::plan
