// Placement in stages, of which a later one begins where the earlier ones are not good enough:
//
//   peak_of              the bound: bytes of the fullest step
//   best_as_steps_pass   if pairs of blocks are more than kBudget; ends near the bound
//   greedy_orders        six orders of the blocks, each with both fits; ends at the bound
//   improve              a complete search, of blocks without spans, as they are and glued
//                        together (exact_placement.h)
//   lower_by_ejection    blocks push each other out (ejection_search.h)
//
// The last two end near the bound, or behind so much work each. Random numbers begin at one fixed
// seed, so equal blocks get equal offsets.
#include "graph/placement/placement.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/placement/ejection_search.h"
#include "graph/placement/exact_placement.h"
#include "graph/placement/greedy_placement.h"

namespace metronome::plan {
namespace {

/// Bytes that come to be held under a guard at a step, or cease to be.
struct Change {
  std::int32_t step;
  std::int32_t guard;
  std::size_t bytes;  // wraps where they cease to be held; sums do not
};

/// [step] what is held in any case; `changes` gets the rest, by step.
std::vector<std::size_t> split_held(std::span<const HeldBlock> blocks,
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
  const std::vector<std::size_t> always = split_held(blocks, changes);
  control::HeaviestGuards heaviest(excludes);
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
  each_step(blocks, excludes, [&](std::size_t, std::size_t bytes, control::HeaviestGuards&) {
    held.push_back(bytes);
  });
  return held;
}

/// The largest of any range of numbers: the larger maximum of two ranges of 2^k numbers that
/// together cover it.
class RangeMaximum {
 public:
  explicit RangeMaximum(std::vector<std::size_t> numbers) : of_{std::move(numbers)} {
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
  const RangeMaximum held(held_bytes(blocks, excludes));
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
      sort_blocks(blocks, [&](const HeldBlock& b) { return std::tuple(smallness(b), -steps(b)); }),
      by_fullest_step(blocks, excludes),
      sort_blocks(blocks, [&](const HeldBlock& b) { return std::tuple(-steps(b), smallness(b)); }),
      sort_blocks(blocks,
                  [&](const HeldBlock& b) { return -static_cast<double>(b.bytes) * steps(b); }),
      sort_blocks(blocks, [&](const HeldBlock& b) { return std::tuple(+b.begin, smallness(b)); }),
      sort_blocks(blocks, [&](const HeldBlock& b) { return std::tuple(-b.end, smallness(b)); }),
  };
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
            [&](std::size_t step, std::size_t bytes, control::HeaviestGuards& heaviest) {
              if (bytes > peak.bytes)
                peak = {bytes, static_cast<std::int32_t>(step), heaviest.guards()};
            });
  return peak;
}

namespace {

/// Stages behind the first: those that compare blocks with each other.
Placement place_by_comparison(std::span<const HeldBlock> blocks,
                              const control::Exclusions& excludes, Effort effort,
                              const SearchLimits& limits, std::size_t bound, Placement best) {
  GreedyPlacer greedy(blocks, excludes);
  bool first = true;
  for (const Order& order : greedy_orders(blocks, excludes)) {
    for (const Fit fit : {Fit::best, Fit::first}) {
      if (!std::exchange(first, false) && greedy.exhausted()) break;
      Placement found = greedy.run(order, fit);
      if (found.bytes < best.bytes) best = std::move(found);
      if (best.bytes == bound) return best;
    }
  }
  best.least = bound;
  if (effort == Effort::greedy) return best;
  const std::size_t enough = limits.enough.value_or(bound + bound / 100);
  if (ExactPlacer::takes(blocks)) best = improve(blocks, std::move(best), enough, limits.work);
  return lower_by_ejection(blocks, excludes, std::move(best), enough, limits.work);
}

}  // namespace

Placement place(std::span<const HeldBlock> blocks, const control::Exclusions& excludes,
                Effort effort, const SearchLimits& limits) {
  const std::size_t bound = peak_of(blocks, excludes).bytes;
  Placement best{{}, SIZE_MAX};
  bool ends = false;
  if (blocks.size() * blocks.size() > kBudget) {
    best = best_as_steps_pass(blocks, bound);
    ends = near_peak(best.bytes, bound) || effort == Effort::greedy;
  }
  if (!ends) best = place_by_comparison(blocks, excludes, effort, limits, bound, std::move(best));
  best.least = std::max(best.least, bound);
  return best;
}

}  // namespace metronome::plan
