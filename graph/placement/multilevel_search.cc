// A multilevel search, as of graphs that are cut into parts (Hendrickson and Leland, "A multilevel
// algorithm for partitioning graphs", 1995). Blocks are glued to fewer and fewer (glued_blocks.h).
// The fewest are placed first; then those that they were glued from begin in that order:
//
//   level 2   ab  cd  e        placed by reinsertion, a few large blocks
//   level 1   a b  cd  e       begin in the order of level 2, and are placed by reinsertion
//   level 0   a b  c d  e      the blocks
//
// The trick: a few rounds with large blocks find an order that single blocks would have to find one
// by one. Wrong joins do little harm, as each level may undo what the ones above it did.
#include "graph/placement/multilevel_search.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "graph/placement/glued_blocks.h"
#include "graph/placement/neighbours.h"
#include "graph/placement/reinsertion_search.h"

namespace metronome::plan {
namespace {

/// Work of the first placement in each style of gluing; later ones take four times as much each.
constexpr std::size_t kFirstWork = 60'000'000;

/// [block of the level] the offset of the highest of its parts: they lie together, so that any one
/// would do.
std::vector<std::size_t> offsets_of(const GluedBlocks& level, const Placement& placement) {
  std::vector<std::size_t> offsets(level.blocks.size());
  for (std::size_t i = 0; i < level.within.size(); ++i) {
    const std::int32_t glued = level.within[i].glued;
    if (glued >= 0) offsets[glued] = std::max(offsets[glued], placement.offsets[i]);
  }
  return offsets;
}

class MultilevelSearch {
 public:
  MultilevelSearch(std::span<const HeldBlock> blocks, Placement best, std::size_t enough,
                   std::size_t work)
      : blocks_(blocks), best_(std::move(best)), enough_(enough), left_(work) {}

  /// `peak` is that of the blocks: they are glued as if they reach it.
  Placement run(std::size_t peak) {
    std::vector<std::vector<GluedBlocks>> styles;
    for (int style = 0; style < kGlueStyles && !done(); ++style) {
      styles.push_back(glue(peak, style));
      if (styles[0].empty()) return best_;  // the first style finds most
      descend(styles.back(), kFirstWork);
    }
    for (std::size_t work = kFirstWork; !done();) {
      best_ = refine(blocks_, best_.offsets, styles.size() * work / 2);
      work *= 4;
      for (const std::vector<GluedBlocks>& levels : styles) descend(levels, work);
    }
    return best_;
  }

 private:
  bool done() const { return left_ == 0 || best_.bytes <= enough_; }

  std::vector<GluedBlocks> glue(std::size_t peak, int style) {
    std::vector<GluedBlocks> levels = glue_levels(blocks_, peak, style, left_);
    // Gaps that are glued in may make blocks that are too large.
    std::erase_if(levels, [](const GluedBlocks& level) { return !can_reinsert(level.blocks); });
    return levels;
  }

  /// Places all levels, the fewest blocks first, and the blocks.
  void descend(const std::vector<GluedBlocks>& levels, std::size_t work) {
    if (levels.empty()) return;
    std::size_t all = blocks_.size();
    for (const GluedBlocks& level : levels) all += level.blocks.size();
    Placement found{std::vector<std::size_t>(blocks_.size())};
    const auto keep = [&](Placement placement) {
      found = std::move(placement);
      if (found.bytes < best_.bytes) best_ = found;
    };
    for (std::size_t i = levels.size(); i-- > 0 && !done();) {
      const GluedBlocks& level = levels[i];
      keep(level.placement(
          refine(level.blocks, offsets_of(level, found), work / all * level.blocks.size())));
    }
    if (!done()) keep(refine(blocks_, found.offsets, work / all * blocks_.size()));
  }

  Placement refine(std::span<const HeldBlock> blocks, std::span<const std::size_t> offsets,
                   std::size_t work) {
    ReinsertedBlocks found =
        place_by_reinsertion(blocks, {}, offsets, enough_, std::min(work, left_), random_);
    left_ -= std::min(found.work, left_);
    return std::move(found.placement);
  }

  const std::span<const HeldBlock> blocks_;
  Placement best_;
  const std::size_t enough_;
  std::size_t left_;
  std::minstd_rand random_;
};

}  // namespace

Placement lower_by_levels(std::span<const HeldBlock> blocks, Placement best, std::size_t enough,
                          std::size_t work) {
  if (has_spans(blocks)) return best;
  const std::size_t peak = std::max(best.least, peak_of(blocks).bytes);
  enough = std::max(enough, peak);
  if (best.bytes <= enough || !can_reinsert(blocks)) return best;
  MultilevelSearch search(blocks, best, enough, share_of_work(work, blocks.size()));
  Placement found = search.run(peak);
  if (found.bytes >= best.bytes) return best;
  found.least = best.least;
  return found;
}

}  // namespace metronome::plan
