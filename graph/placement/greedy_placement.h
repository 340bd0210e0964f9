// Blocks placed one by one, each beside those that are placed already.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "graph/placement/placement.h"

namespace metronome::plan {

/// Comparisons of two blocks that all attempts together may make, some half a second of work; the
/// first attempt is made in any case.
inline constexpr std::size_t kBudget = 100'000'000;

/// The gap to take, if two hold a block: the lower one, or the narrower.
enum class Fit { first, best };

using Order = std::vector<std::int32_t>;

/// Places blocks one by one. The placed ones are kept by offset, each property in a vector of its
/// own, so that one instruction compares several of them.
class GreedyPlacer {
 public:
  GreedyPlacer(std::span<const HeldBlock> blocks, const control::Exclusions& excludes)
      : blocks_(blocks), excludes_(excludes) {}

  bool exhausted() const { return compared_ >= kBudget; }

  /// Places the blocks that the order names; the others' offsets mean nothing.
  Placement run(const Order& order, Fit fit);

 private:
  /// The offset for a block: the lowest gap that holds it, or the narrowest.
  std::size_t find(const HeldBlock& block, Fit fit, std::span<const std::size_t> offsets);
  /// Lists the placed blocks that are held when `block` is.
  void find_beside(const HeldBlock& block);

  std::span<const HeldBlock> blocks_;
  const control::Exclusions& excludes_;
  std::vector<std::int32_t> placed_;         // by offset
  std::vector<std::int32_t> begins_, ends_;  // of the placed ones, in that order
  std::vector<std::uint8_t> meets_;          // 1 where a placed one is held with the block
  std::vector<std::int32_t> beside_;         // the placed ones of which that is so
  std::size_t compared_ = 0;
};

/// All blocks by a key, smallest first; equal ones stay as they stand.
template <class Key>
Order sort_blocks(std::span<const HeldBlock> blocks, Key key) {
  Order order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return key(blocks[a]) < key(blocks[b]); });
  return order;
}

/// For so many blocks that comparing each with each takes too long (step_placement.cc). Blocks are
/// placed where they begin, as the steps pass, forwards or backwards, all of them or all but some
/// large ones, which come first. The best placement of these ways; the first one near `peak`, if
/// there is one. Exclusions between guards are ignored: all blocks are held in any case.
Placement best_as_steps_pass(std::span<const HeldBlock> blocks, std::size_t peak);

}  // namespace metronome::plan
