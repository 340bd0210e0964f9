// Placements of so many blocks that comparing each with each takes too long.
#pragma once

#include <cstddef>
#include <span>

#include "graph/plan/placement.h"

namespace metronome::plan {

/// Blocks are placed where they begin, as the steps pass, forwards or backwards, all of them or all
/// but some large ones, which come first. The best placement of these ways; the first one near
/// `peak`, if there is one. Exclusions between guards are ignored: all blocks are held in any case.
Placement best_as_steps_pass(std::span<const HeldBlock> blocks, std::size_t peak);

}  // namespace metronome::plan
