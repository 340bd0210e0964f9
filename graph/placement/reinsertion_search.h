// A placement made lower by blocks that are taken out and put in again.
#pragma once

#include <cstddef>
#include <random>
#include <span>

#include "graph/control/exclusions.h"
#include "graph/placement/placement.h"

namespace metronome::plan {

/// False if too many pairs of blocks are held together, or if the blocks have too many units.
bool can_reinsert(std::span<const HeldBlock> blocks);

struct ReinsertedBlocks {
  Placement placement;
  std::size_t work = 0;  ///< that it took
};
/// Begins with blocks in the order of those offsets, which need not be a placement's. Ends at
/// `enough` bytes, or behind so much work; to begin takes some in any case. `can_reinsert` holds of
/// the blocks.
ReinsertedBlocks place_by_reinsertion(std::span<const HeldBlock> blocks,
                                      const control::Exclusions& excludes,
                                      std::span<const std::size_t> offsets, std::size_t enough,
                                      std::size_t work, std::minstd_rand& random);

/// Returns the lowest placement that it finds, `best` if it finds none below that. Ends at `enough`
/// bytes, or behind so much work (SearchLimits): of few blocks behind a part of it, but a little is
/// done in any case. Looks at blocks with spans, too, but at no plan in which too many pairs of
/// blocks are held together. Deterministic.
Placement lower_by_reinsertion(std::span<const HeldBlock> blocks,
                               const control::Exclusions& excludes, Placement best,
                               std::size_t enough, std::size_t work);

}  // namespace metronome::plan
