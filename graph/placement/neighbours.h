// Lists of the blocks that each block meets, for searches that move blocks among them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/control/exclusions.h"
#include "graph/placement/placement.h"

namespace metronome::plan {

/// [block] the blocks of at least a byte that it meets.
using Neighbours = std::vector<std::vector<std::int32_t>>;
Neighbours list_neighbours(std::span<const HeldBlock> blocks, const control::Exclusions& excludes);

/// True if so few pairs of blocks are held together that a list of them is worth its memory.
bool has_few_pairs(std::span<const HeldBlock> blocks);

/// The work that a search of blocks may do, of so much in all: of few blocks a part of it, as they
/// find early what they find, but a little in any case.
std::size_t share_of_work(std::size_t work, std::size_t blocks);

}  // namespace metronome::plan
