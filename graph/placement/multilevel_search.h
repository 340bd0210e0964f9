// A placement made lower by placing glued blocks first, then their parts.
#pragma once

#include <cstddef>
#include <span>

#include "graph/placement/placement.h"

namespace metronome::plan {

/// Returns the lowest placement that it finds, `best` if it finds none below that. Ends at `enough`
/// bytes, or behind so much work (SearchLimits): of few blocks behind a part of it. Looks at
/// no blocks with spans, and at no plan in which too many pairs of blocks are held together.
/// Deterministic.
Placement lower_by_levels(std::span<const HeldBlock> blocks, Placement best, std::size_t enough,
                          std::size_t work);

}  // namespace metronome::plan
