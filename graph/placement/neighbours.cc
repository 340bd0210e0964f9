#include "graph/placement/neighbours.h"

#include <algorithm>
#include <numeric>

namespace metronome::plan {
namespace {

/// Pairs at most: each takes eight bytes, in a list of either.
constexpr std::size_t kMostPairs = std::size_t{1} << 23;
/// Fewer blocks than these get that much less of the work.
constexpr std::size_t kManyBlocks = 500;
/// Work that is done in any case: for each block, and at most.
constexpr std::size_t kLeastWork = 10'000, kMostLeastWork = 100'000'000;

}  // namespace

Neighbours list_neighbours(std::span<const HeldBlock> blocks, const control::Exclusions& excludes) {
  std::vector<std::int32_t> by_begin(blocks.size()), held;
  std::iota(by_begin.begin(), by_begin.end(), 0);
  std::ranges::stable_sort(by_begin, {}, [&](std::int32_t i) { return blocks[i].begin; });
  Neighbours neighbours(blocks.size());
  for (const std::int32_t block : by_begin) {
    if (blocks[block].bytes == 0) continue;
    std::erase_if(held, [&](std::int32_t i) { return blocks[i].end < blocks[block].begin; });
    for (const std::int32_t other : held) {
      if (!meet(blocks[block], blocks[other], excludes)) continue;
      neighbours[block].push_back(other);
      neighbours[other].push_back(block);
    }
    held.push_back(block);
  }
  return neighbours;
}

bool has_few_pairs(std::span<const HeldBlock> blocks) {
  std::vector<std::int32_t> begins, ends;
  for (const HeldBlock& block : blocks) {
    if (block.bytes == 0) continue;
    begins.push_back(block.begin);
    ends.push_back(block.end);
  }
  std::ranges::sort(begins);
  std::ranges::sort(ends);
  std::size_t pairs = 0, held = 0;
  auto end = ends.begin();
  for (const std::int32_t begin : begins) {
    for (; *end < begin; ++end) --held;
    pairs += held++;
  }
  return pairs <= kMostPairs;
}

std::size_t share_of_work(std::size_t work, std::size_t blocks) {
  return std::max(work / kManyBlocks * std::min(blocks, kManyBlocks),
                  std::min(kLeastWork * blocks, kMostLeastWork));
}

}  // namespace metronome::plan
