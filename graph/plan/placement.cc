#include "graph/plan/placement.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace metronome::plan {
namespace {

/// Comparisons of two blocks that all attempts together may make, some half a second of work; the
/// first attempt is made in any case.
constexpr std::size_t kBudget = 100'000'000;
/// Rounds of one search: what it finds, it mostly finds early.
constexpr int kSearchRounds = 400;
/// Rounds after which a search returns to the best that it has found.
constexpr int kPatience = 25;
/// Greedy placements from which searches begin: one more beginning finds more than more rounds.
constexpr std::size_t kSearches = 4;

enum class Fit { first, best };

using Order = std::vector<std::int32_t>;

/// Places blocks one by one. The placed ones are kept by offset, each property in a vector of its
/// own, so that one instruction compares several of them.
class Greedy {
 public:
  Greedy(std::span<const HeldBlock> blocks, const control::Exclusions& excludes)
      : blocks_(blocks), excludes_(excludes) {}

  bool exhausted() const { return compared_ >= kBudget; }

  Placement run(const Order& order, Fit fit) {
    placed_.clear();
    begins_.clear();
    ends_.clear();
    Placement result;
    result.offsets.resize(blocks_.size());
    for (std::int32_t index : order) {
      const HeldBlock& block = blocks_[index];
      if (block.bytes == 0) continue;
      const std::size_t offset = find(block, fit, result.offsets);
      result.offsets[index] = offset;
      result.bytes = std::max(result.bytes, offset + block.bytes);
      const auto above =
          std::ranges::upper_bound(placed_, offset, {},
                                   [&](std::int32_t other) { return result.offsets[other]; }) -
          placed_.begin();
      placed_.insert(placed_.begin() + above, index);
      begins_.insert(begins_.begin() + above, block.begin);
      ends_.insert(ends_.begin() + above, block.end);
    }
    return result;
  }

 private:
  /// The offset for a block: the lowest gap that holds it, or the narrowest.
  std::size_t find(const HeldBlock& block, Fit fit, std::span<const std::size_t> offsets) {
    std::size_t floor = 0;
    std::size_t best_gap = SIZE_MAX;
    std::size_t best = 0;
    compared_ += placed_.size();
    find_beside(block);
    for (const std::int32_t index : beside_) {
      const HeldBlock& other = blocks_[index];
      if (!block.spans.empty() && !other.spans.empty() && !meet(block, other, excludes_)) continue;
      const std::size_t offset = offsets[index];
      if (offset >= floor + block.bytes && offset - floor < best_gap) {
        if (fit == Fit::first) return floor;
        best_gap = offset - floor;
        best = floor;
      }
      floor = std::max(floor, offset + other.bytes);
    }
    return best_gap == SIZE_MAX ? floor : best;
  }

  /// Lists the placed blocks that are held when `block` is. Without a branch for each of them:
  /// mispredicted branches would make it several times as slow.
  void find_beside(const HeldBlock& block) {
    const std::size_t count = placed_.size();
    meets_.resize((count + 7) / 8 * 8);
    std::uint8_t* const meets = meets_.data();
    const std::int32_t *const begins = begins_.data(), *const ends = ends_.data();
    const std::int32_t begin = block.begin, end = block.end;
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) {
      meets[i] = static_cast<std::uint8_t>((begins[i] <= end) & (ends[i] >= begin));
    }
    std::fill(meets_.begin() + static_cast<std::ptrdiff_t>(count), meets_.end(), 0);
    beside_.clear();
    static_assert(std::endian::native == std::endian::little, "the lowest byte comes first");
    for (std::size_t i = 0; i < count; i += 8) {
      std::uint64_t eight = 0;
      std::memcpy(&eight, meets + i, sizeof eight);
      for (; eight != 0; eight &= eight - 1) {
        beside_.push_back(placed_[i + static_cast<std::size_t>(std::countr_zero(eight)) / 8]);
      }
    }
  }

  std::span<const HeldBlock> blocks_;
  const control::Exclusions& excludes_;
  std::vector<std::int32_t> placed_;         // by offset
  std::vector<std::int32_t> begins_, ends_;  // of the placed ones, in that order
  std::vector<std::uint8_t> meets_;          // 1 where a placed one is held with the block
  std::vector<std::int32_t> beside_;         // the placed ones of which that is so
  std::size_t compared_ = 0;
};

template <class Key>
Order sorted(std::span<const HeldBlock> blocks, Key key) {
  Order order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return key(blocks[a]) < key(blocks[b]); });
  return order;
}

/// Bytes that come to be held under a guard at a step, or cease to be.
struct Change {
  std::int32_t step;
  std::int32_t guard;
  std::size_t bytes;  // wraps where they cease to be held; sums do not
};

/// [step] what is held in any case; `changes` gets the rest, by step.
std::vector<std::size_t> held_in_any_case(std::span<const HeldBlock> blocks,
                                          std::vector<Change>& changes) {
  std::int32_t last = -1;
  for (const HeldBlock& block : blocks) last = std::max(last, block.end);
  std::vector<std::size_t> held(static_cast<std::size_t>(last + 2));
  const auto hold = [&](const Span& span, std::size_t bytes) {
    if (span.guard >= 0) {
      changes.push_back({span.begin, span.guard, bytes});
      changes.push_back({span.end + 1, span.guard, 0 - bytes});
      return;
    }
    held[span.begin] += bytes;
    held[span.end + 1] -= bytes;  // wraps; the running sum does not
  };
  for (const HeldBlock& block : blocks) {
    if (block.spans.empty()) hold({block.begin, block.end}, block.bytes);
    for (const Span& span : block.spans) hold(span, block.bytes);
  }
  std::partial_sum(held.begin(), held.end(), held.begin());
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return a.step < b.step; });
  return held;
}

/// Calls `visit(step, bytes, heaviest)` for each step: what is held, and under which guards.
template <class Visit>
void each_step(std::span<const HeldBlock> blocks, const control::Exclusions& excludes,
               Visit visit) {
  std::vector<Change> changes;
  const std::vector<std::size_t> always = held_in_any_case(blocks, changes);
  control::HeaviestHeld heaviest(excludes);
  auto change = changes.begin();
  for (std::size_t step = 0; step < always.size(); ++step) {
    for (; change != changes.end() && change->step == static_cast<std::int32_t>(step); ++change) {
      heaviest.add(change->guard, change->bytes);
    }
    visit(step, always[step] + heaviest.weight(), heaviest);
  }
}

/// The most bytes that are held at each step.
std::vector<std::size_t> held_bytes(std::span<const HeldBlock> blocks,
                                    const control::Exclusions& excludes) {
  std::vector<std::size_t> held;
  each_step(blocks, excludes,
            [&](std::size_t, std::size_t bytes, control::HeaviestHeld&) { held.push_back(bytes); });
  return held;
}

/// The largest of any range of numbers: the larger maximum of two ranges of 2^k numbers that
/// together cover it.
class LargestOf {
 public:
  explicit LargestOf(std::vector<std::size_t> numbers) : of_{std::move(numbers)} {
    for (std::size_t width = 2; width <= of_[0].size(); width *= 2) {
      const std::vector<std::size_t>& half = of_.back();
      std::vector<std::size_t> whole(of_[0].size() - width + 1);
      for (std::size_t i = 0; i < whole.size(); ++i) {
        whole[i] = std::max(half[i], half[i + width / 2]);
      }
      of_.push_back(std::move(whole));
    }
  }
  /// From `begin` to `end`, both included.
  std::size_t operator()(std::int32_t begin, std::int32_t end) const {
    const auto log = std::bit_width(static_cast<std::size_t>(end - begin + 1)) - 1;
    return std::max(of_[log][begin], of_[log][end + 1 - (1 << log)]);
  }

 private:
  std::vector<std::vector<std::size_t>> of_;  // [log of the width][begin]
};

/// Blocks of the fullest step first, largest first, then those of the next fullest.
Order by_fullest_step(std::span<const HeldBlock> blocks, const control::Exclusions& excludes) {
  const LargestOf held(held_bytes(blocks, excludes));
  std::vector<std::size_t> fullest(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    fullest[i] = held(blocks[i].begin, blocks[i].end);
  }
  Order order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return std::pair(fullest[a], blocks[a].bytes) > std::pair(fullest[b], blocks[b].bytes);
  });
  return order;
}

std::vector<Order> greedy_orders(std::span<const HeldBlock> blocks,
                                 const control::Exclusions& excludes) {
  const auto steps = [](const HeldBlock& b) { return b.end - b.begin + 1; };
  const auto smallness = [](const HeldBlock& b) {
    return std::numeric_limits<std::size_t>::max() - b.bytes;
  };
  return {
      sorted(blocks, [&](const HeldBlock& b) { return std::tuple(smallness(b), -steps(b)); }),
      by_fullest_step(blocks, excludes),
      sorted(blocks, [&](const HeldBlock& b) { return std::tuple(-steps(b), smallness(b)); }),
      sorted(blocks, [&](const HeldBlock& b) { return -static_cast<double>(b.bytes) * steps(b); }),
      sorted(blocks, [&](const HeldBlock& b) { return std::tuple(+b.begin, smallness(b)); }),
      sorted(blocks, [&](const HeldBlock& b) { return std::tuple(-b.end, smallness(b)); }),
  };
}

/// Free bytes, as gaps between what is held; the last one has no end.
class Gaps {
 public:
  Gaps() { add(0, SIZE_MAX); }

  /// Takes bytes from the narrowest gap that has them, of equal ones the lowest; returns where.
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

/// Which of the blocks that begin together comes first.
enum class Among { largest, longest };

/// Each block where it begins, in the narrowest gap that is free then: one greedy order and fit,
/// for so many blocks that comparing each with each takes too long. What guards exclude is not
/// looked at: all blocks are held in any case.
Placement as_steps_pass(std::span<const HeldBlock> blocks, Among first) {
  using Ending = std::pair<std::int32_t, std::int32_t>;  // step, block
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> held;
  Gaps gaps;
  Placement result;
  result.offsets.resize(blocks.size());
  const auto key = [&](const HeldBlock& b) {
    return std::tuple(b.begin, first == Among::longest ? -b.end : 0, SIZE_MAX - b.bytes);
  };
  for (const std::int32_t index : sorted(blocks, key)) {
    const HeldBlock& block = blocks[index];
    if (block.bytes == 0) continue;
    for (; !held.empty() && held.top().first < block.begin; held.pop()) {
      const std::int32_t over = held.top().second;
      gaps.give(result.offsets[over], result.offsets[over] + blocks[over].bytes);
    }
    const std::size_t offset = gaps.take(block.bytes);
    held.emplace(block.end, index);
    result.offsets[index] = offset;
    result.bytes = std::max(result.bytes, offset + block.bytes);
  }
  return result;
}

/// The same blocks with time running backwards: every placement of these is one of those.
std::vector<HeldBlock> mirrored(std::span<const HeldBlock> blocks) {
  std::vector<HeldBlock> result;
  for (const HeldBlock& block : blocks) result.push_back({-block.end, -block.begin, block.bytes});
  return result;
}

/// The first placement near the peak that the steps make as they pass, forwards or backwards.
std::optional<Placement> near_as_steps_pass(std::span<const HeldBlock> blocks, std::size_t bound) {
  for (const Among first : {Among::largest, Among::longest}) {
    Placement placement = as_steps_pass(blocks, first);
    if (near_peak(placement.bytes, bound)) return placement;
  }
  const std::vector<HeldBlock> backwards = mirrored(blocks);
  for (const Among first : {Among::largest, Among::longest}) {
    Placement placement = as_steps_pass(backwards, first);
    if (near_peak(placement.bytes, bound)) return placement;
  }
  return std::nullopt;
}

/// A placement, and the order in which blocks were placed.
struct Attempt {
  Order order;
  Fit fit = Fit::first;
  Placement placement;
};

/// The block that reaches the top, and in turn any block that ends above the bound, is moved to
/// some place before in the order, where the offsets are lower. What has led nowhere for a while is
/// given up for the best order so far. Returns the best placement.
Placement search(std::span<const HeldBlock> blocks, std::size_t bound, Attempt best,
                 Greedy& greedy) {
  std::minstd_rand random;
  Attempt now = best;
  std::vector<std::size_t> high;  // places in the order of blocks that end above a line
  for (int round = 0; round < kSearchRounds && best.placement.bytes > bound; ++round) {
    if (greedy.exhausted()) break;
    if (round % kPatience == kPatience - 1) now = best;
    const std::size_t line = round % 2 == 0 ? now.placement.bytes - 1 : bound;
    high.clear();
    for (std::size_t i = 0; i < now.order.size(); ++i) {
      const std::int32_t block = now.order[i];
      if (now.placement.offsets[block] + blocks[block].bytes > line) high.push_back(i);
    }
    const auto from = now.order.begin() + static_cast<std::ptrdiff_t>(high[random() % high.size()]);
    const auto places = static_cast<std::size_t>(from - now.order.begin()) + 1;
    std::rotate(now.order.begin() + static_cast<std::ptrdiff_t>(random() % places), from, from + 1);
    now.placement = greedy.run(now.order, now.fit);
    if (now.placement.bytes <= best.placement.bytes) best = now;
  }
  return best.placement;
}

}  // namespace

bool meet(const HeldBlock& a, const HeldBlock& b, const control::Exclusions& excludes) {
  if (a.begin > b.end || a.end < b.begin) return false;
  if (a.spans.empty() || b.spans.empty()) return true;
  return std::any_of(a.spans.begin(), a.spans.end(), [&](const Span& x) {
    return std::any_of(b.spans.begin(), b.spans.end(), [&](const Span& y) {
      return x.begin <= y.end && y.begin <= x.end && !excludes(x.guard, y.guard);
    });
  });
}

Peak peak_of(std::span<const HeldBlock> blocks, const control::Exclusions& excludes) {
  Peak peak;
  each_step(blocks, excludes,
            [&](std::size_t step, std::size_t bytes, control::HeaviestHeld& heaviest) {
              if (bytes > peak.bytes)
                peak = {bytes, static_cast<std::int32_t>(step), heaviest.guards()};
            });
  return peak;
}

Placement place(std::span<const HeldBlock> blocks, const control::Exclusions& excludes,
                Effort effort) {
  const std::size_t bound = peak_of(blocks, excludes).bytes;
  if (blocks.size() * blocks.size() > kBudget) {
    if (auto quick = near_as_steps_pass(blocks, bound)) return *std::move(quick);
  }
  Greedy greedy(blocks, excludes);
  std::vector<Attempt> attempts;
  for (const Order& order : greedy_orders(blocks, excludes)) {
    for (const Fit fit : {Fit::best, Fit::first}) {
      if (!attempts.empty() && greedy.exhausted()) break;
      attempts.push_back({order, fit, greedy.run(order, fit)});
      if (attempts.back().placement.bytes == bound) return attempts.back().placement;
    }
  }
  std::stable_sort(attempts.begin(), attempts.end(), [](const Attempt& a, const Attempt& b) {
    return a.placement.bytes < b.placement.bytes;
  });
  Placement best = attempts[0].placement;
  if (effort == Effort::greedy) return best;
  for (std::size_t i = 0; i < std::min(attempts.size(), kSearches); ++i) {
    if (i > 0 && near_peak(best.bytes, bound)) break;
    Placement found = search(blocks, bound, std::move(attempts[i]), greedy);
    if (found.bytes < best.bytes) best = std::move(found);
  }
  return best;
}

}  // namespace metronome::plan
