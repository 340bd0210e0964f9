// Placements of very many blocks, by a sweep over the steps. A block takes its bytes at its first
// step and gives them back behind its last, so it is compared with a sorted set of gaps, and never
// with the other blocks. Large blocks come first. The offsets at which one of them begins or ends
// cut memory into zones:
//
//   bytes
//     |                                zone 2: no large block's, without an end
//     +----------------------
//     |  [ L ]                         zone 1: free behind L's last step
//     +----------------------
//     |  [ L ]        [ M   ]          zone 0: free between L and M
//     +---------------------- step
//
// A block lies in one zone, whole, in the narrowest gap of all zones that no large block takes
// while it is held. Up to eight ways are tried: without large blocks or with them, time forwards or
// backwards, and among blocks that begin together the largest or the longest first.
#include "graph/placement/greedy_placement.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace metronome::plan {
namespace {

/// Blocks that are placed before all others, at most. They make up to 129 zones (two borders each),
/// and every other block looks through all zones: more large blocks take more time.
constexpr std::size_t kLargeBlocks = 64;
/// A block is large if its bytes are at least the peak divided by this. A larger number makes
/// smaller blocks large, too, as long as there are no more than kLargeBlocks.
constexpr std::size_t kLargePart = 64;

/// Free bytes between two offsets, as gaps between what is held.
class Gaps {
 public:
  Gaps(std::size_t begin, std::size_t end) { add(begin, end); }

  /// The narrowest gap that has the bytes; SIZE_MAX if there is none.
  std::size_t narrowest(std::size_t bytes) const {
    const auto found = by_size_.lower_bound({bytes, 0});
    return found == by_size_.end() ? SIZE_MAX : found->first;
  }
  /// Takes bytes from it, of equal ones from the lowest; returns where.
  std::size_t take(std::size_t bytes) {
    const auto [size, begin] = *by_size_.lower_bound({bytes, 0});
    remove(begin);
    if (size > bytes) add(begin + bytes, begin + size);
    return begin;
  }
  void give(std::size_t begin, std::size_t end) {
    auto above = end_of_.lower_bound(begin);
    if (above != end_of_.end() && above->first == end) {
      end = above->second;
      remove(above->first);
    }
    auto below = end_of_.lower_bound(begin);
    if (below != end_of_.begin() && (--below)->second == begin) {
      begin = below->first;
      remove(begin);
    }
    add(begin, end);
  }

 private:
  void add(std::size_t begin, std::size_t end) {
    end_of_[begin] = end;
    by_size_.emplace(end - begin, begin);
  }
  void remove(std::size_t begin) {
    by_size_.erase({end_of_.at(begin) - begin, begin});
    end_of_.erase(begin);
  }

  std::map<std::size_t, std::size_t> end_of_;              // [begin]
  std::set<std::pair<std::size_t, std::size_t>> by_size_;  // size, begin
};

/// Memory around large blocks, cut where one begins or ends: each zone is theirs for some steps,
/// and free for other blocks in between.
class Zones {
 public:
  Zones(std::span<const HeldBlock> blocks, const Order& large,
        std::span<const std::size_t> offsets) {
    std::set<std::size_t> borders{0, SIZE_MAX};
    for (const std::int32_t i : large) borders.insert({offsets[i], offsets[i] + blocks[i].bytes});
    for (auto border = borders.begin(); std::next(border) != borders.end(); ++border) {
      Zone zone{Gaps(*border, *std::next(border)), {}};
      for (const std::int32_t i : large) {
        if (offsets[i] <= *border && offsets[i] + blocks[i].bytes > *border) {
          zone.taken.emplace_back(blocks[i].begin, blocks[i].end);
        }
      }
      zones_.push_back(std::move(zone));
    }
  }

  struct ZoneOffset {
    std::size_t zone, offset;
  };
  /// In the narrowest gap of a zone that no large block takes while this one is held.
  ZoneOffset take(const HeldBlock& block) {
    std::size_t best = zones_.size() - 1, narrowest = SIZE_MAX;
    for (std::size_t i = 0; i + 1 < zones_.size(); ++i) {
      const bool taken = std::ranges::any_of(zones_[i].taken, [&](const auto& steps) {
        return steps.first <= block.end && steps.second >= block.begin;
      });
      const std::size_t gap = taken ? SIZE_MAX : zones_[i].gaps.narrowest(block.bytes);
      if (gap < narrowest) best = i, narrowest = gap;
    }
    return {best, zones_[best].gaps.take(block.bytes)};
  }
  void give(const ZoneOffset& found, std::size_t bytes) {
    zones_[found.zone].gaps.give(found.offset, found.offset + bytes);
  }

 private:
  struct Zone {
    Gaps gaps;
    std::vector<std::pair<std::int32_t, std::int32_t>> taken;  // first and last step
  };
  std::vector<Zone> zones_;  // by offset; the last one has no end, and no large block takes it
};

/// The blocks that take a good part of the peak, those that take the most for the longest first.
Order large_blocks(std::span<const HeldBlock> blocks, std::size_t peak) {
  Order large = sort_blocks(blocks, [](const HeldBlock& b) {
    return -static_cast<double>(b.bytes) * (b.end - b.begin + 1);
  });
  std::erase_if(large, [&](std::int32_t i) { return blocks[i].bytes * kLargePart < peak; });
  if (large.size() > kLargeBlocks) large.resize(kLargeBlocks);
  return large;
}

/// The block to place first among those that begin together.
enum class FirstPlaced { largest, longest };

/// The `large` ones first, each beside all others; then each block where it begins, in the
/// narrowest gap that is free then: for so many blocks that comparing each with each takes too
/// long. No block is under a guard.
Placement as_steps_pass(std::span<const HeldBlock> blocks, const Order& large, FirstPlaced first) {
  const control::Exclusions none;
  Placement result = GreedyPlacer(blocks, none).run(large, Fit::best);
  std::vector<bool> placed(blocks.size());
  for (const std::int32_t i : large) placed[i] = true;
  struct PlacedBlock {
    std::int32_t last, block;
    Zones::ZoneOffset at;
    bool operator>(const PlacedBlock& other) const { return last > other.last; }
  };
  std::priority_queue<PlacedBlock, std::vector<PlacedBlock>, std::greater<>> held;
  Zones zones(blocks, large, result.offsets);
  const auto key = [&](const HeldBlock& b) {
    return std::tuple(b.begin, first == FirstPlaced::longest ? -b.end : 0, SIZE_MAX - b.bytes);
  };
  for (const std::int32_t index : sort_blocks(blocks, key)) {
    const HeldBlock& block = blocks[index];
    if (block.bytes == 0 || placed[index]) continue;
    for (; !held.empty() && held.top().last < block.begin; held.pop()) {
      zones.give(held.top().at, blocks[held.top().block].bytes);
    }
    const Zones::ZoneOffset at = zones.take(block);
    held.push({block.end, index, at});
    result.offsets[index] = at.offset;
    result.bytes = std::max(result.bytes, at.offset + block.bytes);
  }
  return result;
}

/// The blocks without their guards: each is held in any case.
std::vector<HeldBlock> without_guards(std::span<const HeldBlock> blocks) {
  std::vector<HeldBlock> result;
  for (const HeldBlock& block : blocks) result.push_back({block.begin, block.end, block.bytes});
  return result;
}

/// Those with time running backwards: every placement of these is one of those.
std::vector<HeldBlock> mirror_time(std::span<const HeldBlock> blocks) {
  std::vector<HeldBlock> result;
  for (const HeldBlock& block : blocks) result.push_back({-block.end, -block.begin, block.bytes});
  return result;
}

}  // namespace

Placement best_as_steps_pass(std::span<const HeldBlock> blocks, std::size_t peak) {
  Placement best{{}, SIZE_MAX};
  const std::vector<HeldBlock> forwards = without_guards(blocks), backwards = mirror_time(blocks);
  const Order large = large_blocks(blocks, peak);
  for (const Order& before : {Order{}, large}) {
    for (const std::vector<HeldBlock>* const way : {&forwards, &backwards}) {
      for (const FirstPlaced first : {FirstPlaced::largest, FirstPlaced::longest}) {
        Placement placement = as_steps_pass(*way, before, first);
        if (placement.bytes < best.bytes) best = std::move(placement);
        if (near_peak(best.bytes, peak)) return best;
      }
    }
    if (large.empty()) break;
  }
  return best;
}

}  // namespace metronome::plan
