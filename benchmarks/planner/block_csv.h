// Blocks of memory and when they are held, as CSV: the form in which problems of memory planning
// are published (https://github.com/google/minimalloc).
//
//   id,lower,upper,size          held from step `lower` to before step `upper`; columns in any
//   0,0,3,64                     order; `alignment` may be one more
//   1,3,9,128
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/placement/placement.h"

namespace metronome::benchmarks {

struct BlockTable {
  std::vector<std::string> lines;       ///< as they were read, the header first
  std::vector<plan::HeldBlock> blocks;  ///< in their order
  std::size_t alignment = 1;            ///< what all alignments divide, and what divides all sizes
};

/// Throws RunError "NAME:LINE: ..." for a line or column that is none.
BlockTable parse_blocks(std::string_view text, const std::string& name);
/// The lines with one more column, "offset".
std::string print_offsets(const BlockTable& table, std::span<const std::size_t> offsets);

}  // namespace metronome::benchmarks
