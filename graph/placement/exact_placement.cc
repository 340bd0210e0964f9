// A depth-first search over canonical placements: blocks are placed by rising offset, each on the
// highest placed one that it meets, so that every placement without needless gaps is met once
// (Moffitt, MiniMalloc, ASPLOS 2023, whose inferences these are).
//
//   bytes                     sections: steps between which no block begins or ends
//     |      +---+
//     |  +---+ d |  +----+    low    of a block: the least offset that it can have
//     |  | c |---+--+    |    floor  of a section: the end of its highest placed block
//     |  +---+  b   | e  |    rest   of a section: the bytes of its blocks that are not placed
//     |  |  a   |   |    |
//     +--+------+---+----+-- step
//
// A branch ends where rest, on top of the floor, the lowest `low` of the section's blocks, or the
// offset that was placed last, is more than may be taken. Two sides between which no block that is
// left crosses are searched apart, each in an order of its own.
//
// Offsets and bytes are counted in the largest unit that divides all blocks.
#include "graph/placement/exact_placement.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

namespace metronome::plan {
namespace exact {

using Number = std::int32_t;
constexpr Number kMost = std::numeric_limits<Number>::max();

/// Work of the first turn of each order, for each block; later turns take twice as long each.
constexpr std::size_t kFirstTurn = 1000;
/// Work of the first search at the bound, or at what is enough (ExactSearches); later ones take
/// four times as long each. At heights above it they take a share of it: there layouts are easier
/// found.
constexpr std::size_t kFirstSearch = 40'000'000, kShareAbove = 8;
/// All glued problems together are searched for so many times the work of the blocks as they are.
constexpr std::size_t kShareGlued = 8;
/// Work for each block that gets a new rank.
constexpr std::size_t kWorkOfRank = 20;
/// Styles of gluing that are new each time.
constexpr int kStylesEach = 3;

enum class SearchEnd : std::uint8_t { found, none, stopped };

/// A block of the problem, in units.
struct Item {
  std::int32_t block;
  Number size, begin, end;  ///< `begin` and `end` of its sections
  Number steps;
  Number total = 0;  ///< what is left to be placed in the fullest of its sections
  std::int64_t area() const { return std::int64_t{size} * steps; }
};

/// Orders in which blocks of one `low` are tried: each finds what others do not.
using Before = bool (*)(const Item& a, const Item& b);
constexpr std::array<Before, 3> kOrders = {
    [](const Item& a, const Item& b) {
      return std::tuple(a.steps, a.area(), a.total) > std::tuple(b.steps, b.area(), b.total);
    },
    [](const Item& a, const Item& b) {
      return std::tuple(a.total, a.area(), a.steps) > std::tuple(b.total, b.area(), b.steps);
    },
    [](const Item& a, const Item& b) {
      return std::tuple(a.total, a.steps, a.area()) > std::tuple(b.total, b.steps, b.area());
    }};

/// The first steps of the sections.
std::vector<std::int32_t> section_steps(std::span<const HeldBlock> blocks) {
  std::vector<std::int32_t> steps;
  for (const HeldBlock& block : blocks) {
    if (block.bytes == 0) continue;
    steps.push_back(block.begin);
    steps.push_back(block.end + 1);
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

/// Blocks that are left to be placed, in the order of their ranks, and the sections that they lie
/// in. Each property has a vector of its own.
struct Part {
  // [block]
  std::vector<Number> item, rank, low, size;
  std::vector<Number> begin, end;  ///< its sections, the end not included
  // [section]
  std::vector<Number> floor, rest;
  std::vector<Number> crossing;  ///< blocks that lie in this one and in the next
  std::vector<Number> lowest;    ///< the least `low`

  std::vector<std::pair<Number, std::size_t>> candidates;  ///< low, and which block

  std::size_t blocks() const { return item.size(); }
  std::size_t sections() const { return floor.size(); }
  Number fullest(std::size_t block) const {
    return *std::max_element(rest.begin() + begin[block], rest.begin() + end[block]);
  }
};

void leave_out(std::size_t index, const std::vector<Number>& all, std::vector<Number>& others) {
  const auto at = all.begin() + static_cast<std::ptrdiff_t>(index);
  others.resize(all.size() - 1);
  std::copy(at + 1, all.end(), std::copy(all.begin(), at, others.begin()));
}

/// `to` becomes what is left with a block placed. True if it meets another that is left.
bool place_one(const Part& from, std::size_t index, Part& to) {
  to.floor = from.floor;
  to.rest = from.rest;
  to.crossing = from.crossing;
  const Number begin = from.begin[index], end = from.end[index];
  const Number top = from.low[index] + from.size[index];
  for (Number s = begin; s < end; ++s) {
    to.floor[s] = top;
    to.rest[s] -= from.size[index];
  }
  for (Number s = begin; s + 1 < end; ++s) --to.crossing[s];
  for (const auto property :
       {&Part::item, &Part::rank, &Part::low, &Part::size, &Part::begin, &Part::end}) {
    leave_out(index, from.*property, to.*property);
  }
  Number meets = 0;
  for (std::size_t i = 0; i < to.blocks(); ++i) {
    const bool beside = to.begin[i] < end && to.end[i] > begin;
    meets += beside ? 1 : 0;
    to.low[i] = beside && to.low[i] < top ? top : to.low[i];
  }
  return meets > 0;
}

}  // namespace exact

using namespace exact;

class ExactPlacer::Search {
 public:
  explicit Search(std::span<const HeldBlock> blocks) : unit_(unit_of(blocks)) {
    const std::vector<std::int32_t> steps = section_steps(blocks);
    sections_ = steps.size();
    const auto section = [&](std::int32_t step) {
      return static_cast<Number>(std::lower_bound(steps.begin(), steps.end(), step) -
                                 steps.begin());
    };
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const HeldBlock& block = blocks[i];
      if (block.bytes == 0) continue;
      items_.push_back({.block = static_cast<std::int32_t>(i),
                        .size = static_cast<Number>(block.bytes / unit_),
                        .begin = section(block.begin),
                        .end = section(block.end + 1),
                        .steps = block.end - block.begin + 1});
    }
    offsets_.resize(items_.size());
  }

  std::size_t unit() const { return unit_; }

  /// `left` goes down by the work that it does.
  SearchEnd run(Number capacity, const Before& before, std::size_t& left) {
    capacity_ = capacity;
    before_ = before;
    left_ = left;
    Part& whole = part(0);
    whole = {};
    whole.floor.resize(sections_);
    whole.rest.resize(sections_);
    whole.crossing.resize(sections_);
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      whole.item.push_back(static_cast<Number>(i));
      whole.low.push_back(0);
      whole.size.push_back(item.size);
      whole.begin.push_back(item.begin);
      whole.end.push_back(item.end);
      for (Number s = item.begin; s < item.end; ++s) whole.rest[s] += item.size;
      for (Number s = item.begin; s + 1 < item.end; ++s) ++whole.crossing[s];
    }
    whole.rank = whole.low;
    for (const Item& item : items_) spend(static_cast<std::size_t>(item.end - item.begin));
    const bool fits = std::ranges::all_of(whole.rest, [&](Number r) { return r <= capacity; });
    const SearchEnd outcome = fits ? search_sides(0) : SearchEnd::none;
    left = left_;
    return outcome;
  }

  Placement placement(std::size_t blocks) const {
    Placement made;
    made.offsets.resize(blocks);
    for (std::size_t i = 0; i < items_.size(); ++i) {
      made.offsets[items_[i].block] = static_cast<std::size_t>(offsets_[i]) * unit_;
      const Number end = offsets_[i] + items_[i].size;
      made.bytes = std::max(made.bytes, static_cast<std::size_t>(end) * unit_);
    }
    return made;
  }

 private:
  Part& part(std::size_t level) {
    while (parts_.size() <= level) parts_.push_back(std::make_unique<Part>());
    return *parts_[level];
  }

  void spend(std::size_t work) { left_ -= std::min(left_, work); }

  /// Searches each side of sections that nothing crosses.
  SearchEnd search_sides(std::size_t level) {
    const Part& whole = part(level);
    const auto sections = static_cast<Number>(whole.sections());
    Number begin = 0;
    for (Number s = 0; s < sections; ++s) {
      if (s + 1 < sections && whole.crossing[s] > 0) continue;
      extract(whole, begin, s + 1, part(level + 1));
      const SearchEnd outcome = search(level + 1, 0, -1);
      if (outcome != SearchEnd::found) return outcome;
      begin = s + 1;
    }
    return SearchEnd::found;
  }

  /// `to` becomes the blocks of some sections, ranked anew.
  void extract(const Part& from, Number begin, Number end, Part& to) {
    std::vector<std::pair<Item, std::size_t>> ranked;
    std::size_t looked = 0;
    for (std::size_t i = 0; i < from.blocks(); ++i) {
      if (from.begin[i] < begin || from.end[i] > end) continue;
      ranked.emplace_back(items_[from.item[i]], i);
      ranked.back().first.total = from.fullest(i);
      looked += static_cast<std::size_t>(from.end[i] - from.begin[i]);
    }
    spend(from.blocks() + looked + kWorkOfRank * ranked.size());
    std::stable_sort(ranked.begin(), ranked.end(),
                     [&](const auto& a, const auto& b) { return before_(a.first, b.first); });
    to = {};
    for (const auto& [item, index] : ranked) {
      to.item.push_back(from.item[index]);
      to.rank.push_back(static_cast<Number>(to.rank.size()));
      to.low.push_back(from.low[index]);
      to.size.push_back(from.size[index]);
      to.begin.push_back(from.begin[index] - begin);
      to.end.push_back(from.end[index] - begin);
    }
    for (const auto property : {&Part::floor, &Part::rest, &Part::crossing}) {
      (to.*property).assign((from.*property).begin() + begin, (from.*property).begin() + end);
    }
  }

  /// Places the blocks of a level: none below `last`, and at it only those of a higher rank.
  SearchEnd search(std::size_t level, Number last, Number last_rank) {
    Part& now = part(level);
    if (now.blocks() == 0) return SearchEnd::found;
    if (left_ == 0) return SearchEnd::stopped;
    list_candidates(now, last, last_rank);
    for (const auto& [offset, index] : now.candidates) {
      Part& next = part(level + 1);
      spend(now.blocks() + now.sections());
      const bool meets = place_one(now, index, next);
      offsets_[now.item[index]] = offset;
      if (fits(next, offset)) {
        const SearchEnd outcome = is_cut(now, index, next)
                                      ? search_sides(level + 1)
                                      : search(level + 1, offset, now.rank[index]);
        if (outcome != SearchEnd::none) return outcome;
      }
      if (!meets) break;  // it lies in nobody's way
    }
    return SearchEnd::none;
  }

  void list_candidates(Part& now, Number last, Number last_rank) {
    spend(now.blocks() + now.sections());
    // A block at the least end of all, or above, would leave a gap that holds a whole one.
    Number below = capacity_ - *std::max_element(now.rest.begin(), now.rest.end()) + 1;
    for (std::size_t i = 0; i < now.blocks(); ++i) {
      below = std::min(below, now.low[i] + now.size[i]);
    }
    now.candidates.clear();
    for (std::size_t i = 0; i < now.blocks(); ++i) {
      const bool later = now.low[i] > last || (now.low[i] == last && now.rank[i] > last_rank);
      if (later && now.low[i] < below) now.candidates.emplace_back(now.low[i], i);
    }
    std::sort(now.candidates.begin(), now.candidates.end());
  }

  /// Whether no section shows that what is left takes more than may be taken.
  bool fits(Part& next, Number last) {
    next.lowest.assign(next.sections(), kMost);
    Number* const lowest = next.lowest.data();
    std::size_t looked = 0;
    for (std::size_t i = 0; i < next.blocks(); ++i) {
      const Number low = next.low[i], begin = next.begin[i], end = next.end[i];
      for (Number s = begin; s < end; ++s) lowest[s] = lowest[s] < low ? lowest[s] : low;
      looked += static_cast<std::size_t>(end - begin);
    }
    spend(looked);
    for (std::size_t s = 0; s < next.sections(); ++s) {
      if (next.rest[s] == 0) continue;
      if (std::max({next.floor[s], lowest[s], last}) > capacity_ - next.rest[s]) return false;
    }
    return true;
  }

  /// Whether nothing crosses between two sections that the block, now placed, crossed alone.
  static bool is_cut(const Part& before, std::size_t index, const Part& next) {
    for (Number s = before.begin[index]; s + 1 < before.end[index]; ++s) {
      if (next.crossing[s] == 0) return true;
    }
    return false;
  }

  const std::size_t unit_;
  std::vector<Item> items_;
  std::size_t sections_ = 0;
  std::vector<std::unique_ptr<Part>> parts_;  // [level]
  std::vector<Number> offsets_;               // [item]
  Number capacity_ = 0;
  Before before_ = nullptr;
  std::size_t left_ = 0;
};

bool ExactPlacer::takes(std::span<const HeldBlock> blocks) {
  // Offsets, and sums of two of them, are 32 bits wide.
  return blocks.size() <= kMostBlocks && !has_spans(blocks) &&
         has_fewer_units(blocks, std::size_t{1} << 30);
}

ExactPlacer::ExactPlacer(std::span<const HeldBlock> blocks, std::size_t work)
    : blocks_(blocks), left_(work), search_(std::make_unique<Search>(blocks)) {}

ExactPlacer::~ExactPlacer() = default;

std::size_t ExactPlacer::unit() const { return search_->unit(); }

ExactAnswer ExactPlacer::find(std::size_t bytes, std::size_t most) {
  const auto capacity =
      static_cast<Number>(std::min(bytes / unit(), static_cast<std::size_t>(kMost / 2)));
  most = std::min(most, left_);
  for (std::size_t turn = blocks_.size() * kFirstTurn; most > 0; turn *= 2) {
    for (const Before& before : kOrders) {
      const std::size_t given = std::min(turn, most);
      std::size_t left = given;
      const SearchEnd outcome = search_->run(capacity, before, left);
      most -= given - left;
      left_ -= given - left;
      if (outcome == SearchEnd::found) return {search_->placement(blocks_.size())};
      if (outcome == SearchEnd::none) return {.proves_none = true};
    }
  }
  return {};
}

namespace exact {

/// Looks for less than `best`: first for `enough`, or the least, then, for less work, for heights
/// between that and the best, by halves. Returns `best` if it finds none.
Placement search_heights(std::span<const HeldBlock> blocks, Placement best, std::size_t enough,
                         std::size_t most, std::size_t& work) {
  ExactPlacer exact(blocks, work);
  const std::size_t lowest = std::max(enough, best.least);
  std::size_t low = lowest, height = lowest;
  while (low < best.bytes && best.bytes > std::max(enough, best.least) && !exact.exhausted()) {
    ExactAnswer answer = exact.find(height, height == lowest ? most : most / kShareAbove);
    if (answer.placement) {
      answer.placement->least = best.least;
      best = std::move(*answer.placement);
    } else {
      low = (height / exact.unit() + 1) * exact.unit();
      if (answer.proves_none) best.least = low;
    }
    height = low + (best.bytes - std::min(low, best.bytes)) / 2;
  }
  work = exact.left();
  return best;
}

}  // namespace exact

Placement ExactSearches::improve(Placement best, std::size_t enough, std::size_t work) {
  const auto done = [&] { return work == 0 || best.bytes <= std::max(enough, best.least); };
  for (; !done(); ++turns_) {
    const std::size_t most = kFirstSearch << std::min<std::size_t>(2 * turns_, 30);
    best = search_heights(blocks_, std::move(best), enough, most, work);
    for (int i = 0; i < kStylesEach && styles_ < kGlueStyles && !done(); ++i, ++styles_) {
      std::ranges::move(glue_blocks(blocks_, std::max(enough, best.least), styles_, work),
                        std::back_inserter(glued_));
    }
    for (auto glued = glued_.rbegin(); glued != glued_.rend() && !done(); ++glued) {
      Placement found = search_heights(glued->blocks, {{}, best.bytes, best.least}, enough,
                                       kShareGlued * most / glued_.size(), work);
      if (found.bytes == best.bytes) continue;
      found.least = best.least;  // what is proven of glued blocks is not of all
      best = glued->placement(found);
    }
  }
  return best;
}

}  // namespace metronome::plan
