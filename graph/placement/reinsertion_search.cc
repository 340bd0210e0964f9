// An iterated greedy search (Ruiz and Stuetzle, "A simple and effective iterated greedy algorithm
// for the permutation flowshop scheduling problem", 2007), of blocks in place of jobs:
//
//   bytes
//     |  +---+              Of two blocks that meet, the one of the lower key is under the other.
//     |  | c | +---+        A block lies on the highest stack of those under it:
//     |  +---+-+ | b |          below(c) = a, above(a) = c
//     |  |  a  | +---+        and the highest stack through it is below + own + above.
//     |  +-----+
//     +------------------- step
//
// A block of the highest stack is taken out, and some that meet it. They are put in again one by
// one, each between any two of those that it meets, and what lies above moves up. The trick: for
// each place the highest stack through the block is known before anything moves. It is the highest
// below the place, the block and the highest above.
#include "graph/placement/reinsertion_search.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "graph/placement/neighbours.h"

namespace metronome::plan {
namespace {

/// Work for each block that is looked at beside another: a billion take about a second.
constexpr std::size_t kWorkOfVisit = 2;
/// Blocks that are taken out at once, at most.
constexpr std::uint32_t kMostOut = 16;

using Bytes = std::int32_t;  // in units
using Key = std::int64_t;
/// Keys lie so far apart at first. All are numbered anew before the next round if two come as near
/// as `kNear`: a round halves a distance kMostOut times at most.
constexpr Key kApart = Key{1} << 32, kNear = Key{1} << 24, kFar = Key{1} << 62;

/// The sides of a block.
enum StackSide : std::uint8_t { kBelow, kAbove };

class ReinsertionSearch {
 public:
  ReinsertionSearch(std::span<const HeldBlock> blocks, const control::Exclusions& excludes,
                    std::size_t unit, const Placement& begin)
      : unit_(unit), neighbours_(list_neighbours(blocks, excludes)), is_out_(blocks.size()) {
    for (const HeldBlock& block : blocks) size_.push_back(static_cast<Bytes>(block.bytes / unit));
    std::vector<std::int32_t> order(blocks.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](std::int32_t block) { return begin.offsets[block]; });
    key_.resize(blocks.size());
    for (std::size_t i = 0; i < order.size(); ++i) key_[order[i]] = static_cast<Key>(i) * kApart;
    for (auto& stack : stack_) stack.resize(blocks.size());
    for (const std::int32_t block : order) stack_[kBelow][block] = highest(kBelow, block);
    std::ranges::reverse(order);
    for (const std::int32_t block : order) stack_[kAbove][block] = highest(kAbove, block);
    changed_at_.resize(blocks.size());
    queued_.resize(blocks.size());
    now_ = measure();
  }

  std::size_t work() const { return work_; }
  std::size_t bytes() const { return static_cast<std::size_t>(now_.bytes) * unit_; }

  /// Takes some blocks out, puts them in again, and keeps that if no stack got higher.
  void round() {
    if (crowded_) number_anew();
    ++round_;
    changes_.clear();
    take_out();
    std::ranges::shuffle(out_, random_);
    if (random_() % 2 == 0) {
      std::ranges::stable_sort(out_, std::greater(),
                               [&](std::int32_t block) { return size_[block]; });
    }
    for (const std::int32_t block : out_) put_in(block);
    const Height made = measure();
    if (made <= now_) {
      now_ = made;
    } else {
      undo();
    }
  }

  Placement placement() const {
    Placement made;
    for (const Bytes below : stack_[kBelow]) {
      made.offsets.push_back(static_cast<std::size_t>(below) * unit_);
    }
    made.bytes = bytes();
    return made;
  }

 private:
  /// The highest stack, and how many blocks are in one of that height.
  struct Height {
    Bytes bytes = 0;
    std::int32_t blocks = 0;
    auto operator<=>(const Height&) const = default;
  };
  /// A block as it was before a round.
  struct Change {
    std::int32_t block;
    Key key;
    std::array<Bytes, 2> stack;
  };

  /// Whether a block is in, and on that side of another.
  bool is_at(StackSide side, std::int32_t block, std::int32_t other) const {
    return !is_out_[block] &&
           (side == kBelow ? key_[block] < key_[other] : key_[block] > key_[other]);
  }
  static StackSide opposite(StackSide side) { return side == kBelow ? kAbove : kBelow; }
  Bytes end(StackSide side, std::int32_t block) const { return stack_[side][block] + size_[block]; }
  Bytes through(std::int32_t block) const {
    return stack_[kBelow][block] + size_[block] + stack_[kAbove][block];
  }

  /// The highest stack on that side of a block.
  Bytes highest(StackSide side, std::int32_t block) {
    Bytes bytes = 0;
    for (const std::int32_t other : neighbours_[block]) {
      if (is_at(side, other, block)) bytes = std::max(bytes, end(side, other));
    }
    work_ += kWorkOfVisit * neighbours_[block].size();
    return bytes;
  }

  Height measure() {
    Height height;
    for (std::size_t block = 0; block < size_.size(); ++block) {
      const Bytes bytes = through(static_cast<std::int32_t>(block));
      if (bytes > height.bytes) height = {bytes, 0};
      height.blocks += bytes == height.bytes ? 1 : 0;
    }
    work_ += size_.size();
    return height;
  }

  /// One of the highest stack, and blocks that meet it or each other.
  void take_out() {
    out_.clear();
    auto nth = static_cast<std::int32_t>(random_() % static_cast<std::uint32_t>(now_.blocks));
    std::int32_t first = 0;
    while (through(first) != now_.bytes || nth-- > 0) ++first;
    take_out(first);
    for (std::uint32_t more = random_() % kMostOut; more > 0; --more) {
      const auto& near = neighbours_[out_[random_() % out_.size()]];
      if (near.empty()) continue;
      const std::int32_t block = near[random_() % near.size()];
      if (!is_out_[block]) take_out(block);
    }
  }

  void take_out(std::int32_t block) {
    note(block);
    is_out_[block] = true;
    out_.push_back(block);
    for (const StackSide side : {kBelow, kAbove}) lower_behind(side, block);
  }

  /// Puts a block between two of those that it meets, where the stack through it is least: of equal
  /// places at one at random.
  void put_in(std::int32_t block) {
    near_.clear();
    for (const std::int32_t other : neighbours_[block]) {
      if (!is_out_[other]) near_.push_back({key_[other], other});
    }
    std::ranges::sort(near_);
    work_ += 4 * kWorkOfVisit * near_.size();
    above_.assign(near_.size() + 1, 0);  // [place] the highest stack above it
    for (std::size_t i = near_.size(); i-- > 0;) {
      above_[i] = std::max(above_[i + 1], end(kAbove, near_[i].second));
    }
    Bytes below = 0, least = std::numeric_limits<Bytes>::max();
    std::size_t place = 0;
    std::uint32_t equals = 0;
    for (std::size_t i = 0; i <= near_.size(); ++i) {
      if (i > 0) below = std::max(below, end(kBelow, near_[i - 1].second));
      const Bytes bytes = below + above_[i];
      if (bytes > least || !has_room(i)) continue;
      equals = bytes < least ? 1 : equals + 1;
      least = bytes;
      if (random_() % equals != 0) continue;
      place = i;
      stack_[kBelow][block] = below;
      stack_[kAbove][block] = above_[i];
    }
    key_[block] = key_at(place);
    is_out_[block] = false;
    for (const StackSide side : {kBelow, kAbove}) raise_behind(side, block);
  }

  /// Whether there is a key between: blocks that do not meet may have the same.
  bool has_room(std::size_t place) const {
    return place == 0 || place == near_.size() || near_[place].first - near_[place - 1].first > 1;
  }
  /// A key between those of the blocks at both sides of a place in `near_`.
  Key key_at(std::size_t place) {
    if (near_.empty()) return 0;
    if (place == 0 || place == near_.size()) {
      const Key key = place == 0 ? near_.front().first - kApart : near_.back().first + kApart;
      crowded_ = crowded_ || std::abs(key) > kFar;
      return key;
    }
    const Key low = near_[place - 1].first, apart = near_[place].first - low;
    crowded_ = crowded_ || apart < kNear;
    return low + apart / 2;
  }

  void number_anew() {
    std::vector<std::int32_t> order(size_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](std::int32_t block) { return key_[block]; });
    for (std::size_t i = 0; i < order.size(); ++i) key_[order[i]] = static_cast<Key>(i) * kApart;
    work_ += 10 * size_.size();
    crowded_ = false;
  }

  void note(std::int32_t block) {
    if (std::exchange(changed_at_[block], round_) == round_) return;
    changes_.push_back({block, key_[block], {stack_[kBelow][block], stack_[kAbove][block]}});
  }

  void undo() {
    for (const Change& change : changes_) {
      key_[change.block] = change.key;
      stack_[kBelow][change.block] = change.stack[kBelow];
      stack_[kAbove][change.block] = change.stack[kAbove];
    }
  }

  /// A block to be looked at again; those nearer to the side's end come first.
  void queue(StackSide side, std::int32_t block) {
    if (std::exchange(queued_[block], 1) != 0) return;
    waiting_.push({side == kBelow ? -key_[block] : key_[block], block});
  }
  std::int32_t next() {
    const std::int32_t block = waiting_.top().second;
    waiting_.pop();
    queued_[block] = 0;
    return block;
  }

  /// A block went: stacks that it was in get lower.
  void lower_behind(StackSide side, std::int32_t gone) {
    queue_on(side, gone, end(side, gone));
    while (!waiting_.empty()) {
      const std::int32_t block = next();
      const Bytes bytes = highest(side, block);
      if (bytes == stack_[side][block]) continue;
      const Bytes before = end(side, block);
      note(block);
      stack_[side][block] = bytes;
      queue_on(side, block, before);
    }
  }
  /// Those that lie directly on a block that ended there.
  void queue_on(StackSide side, std::int32_t block, Bytes ended) {
    for (const std::int32_t other : neighbours_[block]) {
      if (stack_[side][other] == ended && is_at(opposite(side), other, block)) queue(side, other);
    }
    work_ += kWorkOfVisit * neighbours_[block].size();
  }

  /// A block came: stacks that it is in get higher.
  void raise_behind(StackSide side, std::int32_t come) {
    queue(side, come);
    while (!waiting_.empty()) {
      const std::int32_t block = next();
      const Bytes ends = end(side, block);
      for (const std::int32_t other : neighbours_[block]) {
        if (stack_[side][other] >= ends || !is_at(opposite(side), other, block)) continue;
        note(other);
        stack_[side][other] = ends;
        queue(side, other);
      }
      work_ += kWorkOfVisit * neighbours_[block].size();
    }
  }

  const std::size_t unit_;
  const Neighbours neighbours_;
  std::vector<Bytes> size_;                  // [block]
  std::vector<Key> key_;                     // [block]
  std::array<std::vector<Bytes>, 2> stack_;  // [side][block]
  std::vector<char> is_out_;                 // [block]
  Height now_;
  std::int32_t round_ = 0;
  std::vector<std::int32_t> out_, changed_at_;  // changed_at_: [block] the last round
  std::vector<Change> changes_;                 // of this round
  bool crowded_ = false;
  std::vector<std::pair<Key, std::int32_t>> near_;
  std::vector<Bytes> above_;
  std::priority_queue<std::pair<Key, std::int32_t>> waiting_;
  std::vector<char> queued_;  // [block]
  std::minstd_rand random_;
  std::size_t work_ = 0;
};

}  // namespace

Placement lower_by_reinsertion(std::span<const HeldBlock> blocks,
                               const control::Exclusions& excludes, Placement best,
                               std::size_t enough, std::size_t work) {
  const std::size_t unit = unit_of(blocks);
  enough = std::max({enough, best.least, peak_of(blocks, excludes).bytes});
  if (best.bytes <= enough || !has_few_pairs(blocks)) return best;
  std::size_t all = 0;
  for (const HeldBlock& block : blocks) all += block.bytes;
  // A stack may hold all blocks, and its height is 32 bits wide.
  if (all / unit >= std::size_t{1} << 31) return best;
  work = share_of_work(work, blocks.size());
  ReinsertionSearch search(blocks, excludes, unit, best);
  while (search.bytes() > enough && search.work() < work) search.round();
  if (search.bytes() >= best.bytes) return best;
  const std::size_t least = best.least;
  best = search.placement();
  best.least = least;
  return best;
}

}  // namespace metronome::plan
