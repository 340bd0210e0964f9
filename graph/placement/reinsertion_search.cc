// An iterated greedy search (Ruiz and Stuetzle, "A simple and effective iterated greedy algorithm
// for the permutation flowshop scheduling problem", 2007), of blocks in place of jobs: a block of
// the highest stack is taken out, and some near it. They are put in again one by one, each between
// any two of those that it meets (block_stacks.h). It is kept if no stack got higher.
#include "graph/placement/reinsertion_search.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "graph/placement/block_stacks.h"
#include "graph/placement/neighbours.h"

namespace metronome::plan {
namespace {

/// Blocks that are taken out at once, at most.
constexpr std::uint32_t kMostOut = 16;

class ReinsertionSearch {
 public:
  ReinsertionSearch(BlockStacks& stacks, BlockStacks::Random& random)
      : stacks_(stacks), random_(random) {}

  void round() {
    take_out();
    std::ranges::shuffle(out_, random_);
    if (random_() % 2 == 0) {
      std::ranges::stable_sort(out_, std::greater(),
                               [&](std::int32_t block) { return stacks_.size(block); });
    }
    const bool are_in = std::ranges::all_of(
        out_, [&](std::int32_t block) { return stacks_.put_in(block, random_); });
    if (!are_in || !stacks_.keep()) stacks_.undo();
  }

 private:
  /// One of the highest stack, and blocks near it or each other.
  void take_out() {
    out_.clear();
    const auto highest = stacks_.highest();
    take_out(highest[random_() % highest.size()]);
    for (std::uint32_t more = random_() % kMostOut; more > 0; --more) {
      const std::int32_t block = stacks_.near(out_[random_() % out_.size()], random_);
      if (block >= 0 && !stacks_.is_out(block)) take_out(block);
    }
    stacks_.settle();
  }
  void take_out(std::int32_t block) {
    stacks_.take_out(block);
    out_.push_back(block);
  }

  BlockStacks& stacks_;
  BlockStacks::Random& random_;
  std::vector<std::int32_t> out_;
};

}  // namespace

bool can_reinsert(std::span<const HeldBlock> blocks) {
  // A stack may hold all blocks, and its height is 32 bits wide.
  return has_fewer_units(blocks, std::size_t{1} << 31) && has_few_pairs(blocks);
}

ReinsertedBlocks place_by_reinsertion(std::span<const HeldBlock> blocks,
                                      const control::Exclusions& excludes,
                                      std::span<const std::size_t> offsets, std::size_t enough,
                                      std::size_t work, std::minstd_rand& random) {
  const std::size_t unit = unit_of(blocks);
  BlockStacks stacks(blocks, excludes, unit, offsets);
  ReinsertionSearch search(stacks, random);
  const auto bytes = [&] { return static_cast<std::size_t>(stacks.height()) * unit; };
  while (bytes() > enough && stacks.work() < work) search.round();
  Placement found{{}, bytes()};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    found.offsets.push_back(static_cast<std::size_t>(stacks.below(static_cast<std::int32_t>(i))) *
                            unit);
  }
  return {std::move(found), stacks.work()};
}

Placement lower_by_reinsertion(std::span<const HeldBlock> blocks,
                               const control::Exclusions& excludes, Placement best,
                               std::size_t enough, std::size_t work) {
  enough = std::max({enough, best.least, peak_of(blocks, excludes).bytes});
  if (best.bytes <= enough || !can_reinsert(blocks)) return best;
  BlockStacks::Random random;
  Placement found = place_by_reinsertion(blocks, excludes, best.offsets, enough,
                                         share_of_work(work, blocks.size()), random)
                        .placement;
  if (found.bytes >= best.bytes) return best;
  found.least = best.least;
  return found;
}

}  // namespace metronome::plan
