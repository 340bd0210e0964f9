// Placement in stages, of which a later one begins where the earlier ones are not good enough:
//
//   peak_of              the bound: bytes of the fullest step
//   best_as_steps_pass   if pairs of blocks are more than kBudget; else behind the greedy orders
//   greedy_orders        six orders of the blocks, each with both fits; ends at the bound
//   ExactSearches        complete ones, of blocks without spans, as they are and glued together
//                        (exact_placement.h); they go on in the end, with much work
//   search               from the best kSearches attempts
//   lower_by_levels      blocks glued to fewer, then their parts (multilevel_search.h)
//   lower_by_ejection    else blocks push each other out (ejection_search.h)
//   lower_by_reinsertion blocks are taken out and put in between others (reinsertion_search.h)
//
// The trick: an attempt is an order of blocks and a fit, and `GreedyPlacer` makes the offsets from
// them. A search only moves blocks in the order, so each attempt is a valid placement:
//
//   order a b c    c ends too high: it moves to a place before, drawn at random
//   order c a b    all are placed anew; no more bytes than the best: it is the best from here on
//
// From `ExactSearches` on all end near the bound. The greedy orders and `search` share the budget
// of one `GreedyPlacer`. Random numbers begin at one fixed seed, so equal blocks get equal offsets.
#include "graph/placement/placement.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/placement/ejection_search.h"
#include "graph/placement/exact_placement.h"
#include "graph/placement/greedy_placement.h"
#include "graph/placement/multilevel_search.h"
#include "graph/placement/reinsertion_search.h"

namespace metronome::plan {
namespace {

/// Rounds of one search; a round places all blocks once. A search mostly finds early what it finds:
/// more rounds find little more, fewer may leave larger arenas (tests/models/arena_test.cc holds
/// all models to 1.01 of their bound).
constexpr int kRounds = 400;
/// Rounds after which a search returns to the best that it has found; every second return tries the
/// other fit. Fewer keep it near the best; with more it goes further through worse attempts.
constexpr int kPatience = 5;
/// Attempts from which searches begin, the best of the greedy ones: one more beginning finds more
/// than more rounds.
constexpr std::size_t kSearches = 4;

/// Work of the complete search before the others: it mostly finds early what it finds. Behind them
/// it gets the rest.
constexpr std::size_t kFirstExactWork = 500'000'000;

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

/// A placement, and the order in which blocks were placed.
struct Attempt {
  Order order;
  Fit fit = Fit::first;
  Placement placement;
};

/// Moves some block that ends above `line`, below the placement's end, to some place before in the
/// order, where the offsets are lower.
void move_one_above(std::size_t line, std::span<const HeldBlock> blocks, std::minstd_rand& random,
                    Attempt& attempt) {
  std::vector<std::size_t> high;  // places in the order
  for (std::size_t i = 0; i < attempt.order.size(); ++i) {
    const std::int32_t block = attempt.order[i];
    if (attempt.placement.offsets[block] + blocks[block].bytes > line) high.push_back(i);
  }
  const auto begin = attempt.order.begin();
  const auto from = begin + static_cast<std::ptrdiff_t>(high[random() % high.size()]);
  const auto places = static_cast<std::size_t>(from - begin) + 1;
  std::rotate(begin + static_cast<std::ptrdiff_t>(random() % places), from, from + 1);
}

/// Moves the block that reaches the top, and in turn any block that ends above the bound. Every few
/// rounds it returns to the best attempt so far, each second time with the other fit: by one fit
/// alone some placements of the bound's size cannot be found. Returns the best one.
Attempt search(std::span<const HeldBlock> blocks, std::size_t bound, Attempt best,
               GreedyPlacer& greedy) {
  std::minstd_rand random;
  Attempt now = best;
  for (int round = 0; round < kRounds && best.placement.bytes > bound; ++round) {
    if (greedy.exhausted()) break;
    const bool returns = round % kPatience == kPatience - 1;
    if (returns) now = best;
    if (returns && round / kPatience % 2 == 1) {
      now.fit = now.fit == Fit::first ? Fit::best : Fit::first;
    } else {
      move_one_above(round % 2 == 0 ? now.placement.bytes - 1 : bound, blocks, random, now);
    }
    now.placement = greedy.run(now.order, now.fit);
    if (now.placement.bytes <= best.placement.bytes) best = now;
  }
  return best;
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

bool has_spans(std::span<const HeldBlock> blocks) {
  return std::ranges::any_of(blocks, [](const HeldBlock& block) { return !block.spans.empty(); });
}

std::size_t unit_of(std::span<const HeldBlock> blocks) {
  std::size_t unit = 0;
  for (const HeldBlock& block : blocks) unit = std::gcd(unit, block.bytes);
  return std::max<std::size_t>(unit, 1);
}

bool has_fewer_units(std::span<const HeldBlock> blocks, std::size_t units) {
  const std::size_t unit = unit_of(blocks);
  return std::ranges::all_of(blocks, [&](const HeldBlock& block) {
    const bool fewer = block.bytes / unit < units;
    units -= fewer ? block.bytes / unit : 0;
    return fewer;
  });
}

bool is_searched(std::span<const HeldBlock> blocks) {
  return ExactPlacer::takes(blocks) || can_reinsert(blocks);
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

/// The bytes that are good enough.
std::size_t enough_of(const SearchLimits& limits, std::size_t bound) {
  return limits.enough.value_or(bound + bound / 100);
}

/// Stages behind the first: those that compare blocks with each other.
Placement place_by_comparison(std::span<const HeldBlock> blocks,
                              const control::Exclusions& excludes, Effort effort,
                              const SearchLimits& limits, std::size_t bound, Placement best) {
  GreedyPlacer greedy(blocks, excludes);
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
  const std::size_t enough = enough_of(limits, bound);
  const bool sweeps = best.offsets.empty() && effort == Effort::search;
  if (attempts[0].placement.bytes < best.bytes) best = attempts[0].placement;
  if (sweeps && best.bytes > enough) {
    Placement swept = best_as_steps_pass(blocks, bound);
    if (swept.bytes < best.bytes) best = std::move(swept);
  }
  best.least = bound;
  if (effort == Effort::greedy) return best;
  const bool is_exact = ExactPlacer::takes(blocks);
  const std::size_t first_work = std::min(limits.work, kFirstExactWork);
  ExactSearches exact(blocks);
  if (is_exact) best = exact.improve(std::move(best), enough, first_work);
  const std::size_t least = best.least;
  if (attempts.size() > kSearches) attempts.resize(kSearches);
  for (const Attempt& attempt : attempts) {
    if (best.bytes <= std::max(enough, least) || greedy.exhausted()) break;
    Attempt found = search(blocks, bound, attempt, greedy);
    if (found.placement.bytes < best.bytes) best = std::move(found.placement);
    best.least = least;
  }
  if (best.bytes > std::max(enough, least)) {
    const std::size_t before = best.bytes;
    best = lower_by_levels(blocks, std::move(best), enough, limits.work);
    // Blocks that push each other out seldom find more where glued ones found something.
    if (best.bytes == before) {
      best = lower_by_ejection(blocks, excludes, std::move(best), enough, limits.work);
    }
    best = lower_by_reinsertion(blocks, excludes, std::move(best), enough, limits.work);
    if (is_exact) best = exact.improve(std::move(best), enough, limits.work - first_work);
  }
  return best;
}

}  // namespace

Placement place(std::span<const HeldBlock> blocks, const control::Exclusions& excludes,
                Effort effort, const SearchLimits& limits) {
  const std::size_t bound = peak_of(blocks, excludes).bytes;
  Placement best{{}, SIZE_MAX};
  bool ends = false;
  if (blocks.size() * blocks.size() > kBudget) {
    best = best_as_steps_pass(blocks, bound);
    ends = best.bytes <= enough_of(limits, bound) || effort == Effort::greedy;
  }
  if (!ends) best = place_by_comparison(blocks, excludes, effort, limits, bound, std::move(best));
  best.least = std::max(best.least, bound);
  return best;
}

}  // namespace metronome::plan
