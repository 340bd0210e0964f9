// Blocks glued together, so that searches have fewer of them to place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/placement/placement.h"

namespace metronome::plan {

/// Blocks glued together to fewer, larger ones: each placement of these is one of the blocks, too.
struct GluedBlocks {
  struct Within {
    std::int32_t glued = -1;  ///< index in `blocks`; -1: the block has no bytes
    std::size_t offset = 0;   ///< from the begin of that one
  };
  std::vector<HeldBlock> blocks = {};
  std::vector<Within> within = {};  ///< [block of the problem]

  /// The placement of the problem that one of `blocks` makes.
  Placement placement(const Placement& of_glued) const;
};

/// Ways to glue, those first that find most: each finds what others do not.
inline constexpr int kGlueStyles = 8;

/// Blocks without spans, glued as if they fill so many bytes with few gaps (glued_blocks.cc);
/// several results, each of fewer blocks than the one before, and none of more than half of them:
/// to search those seldom helps. `work` goes down by what it takes, at most about a sixteenth.
std::vector<GluedBlocks> glue_blocks(std::span<const HeldBlock> blocks, std::size_t bytes,
                                     int style, std::size_t& work);

/// As above, but for a multilevel search: each result has at most four fifths of the blocks of the
/// one before, the first of all blocks.
std::vector<GluedBlocks> glue_levels(std::span<const HeldBlock> blocks, std::size_t bytes,
                                     int style, std::size_t& work);

}  // namespace metronome::plan
