// A guided ejection search (Nagata and Braysy, "A powerful route minimization heuristic for the
// vehicle routing problem with time windows", 2009), of offsets in place of routes:
//
//   bytes
//     |---------------------------  capacity: a little less than the best placement takes
//     |   +---+    +-----+          c waits, as it ended above the capacity
//     |   | a |    |  b  |
//     |   +---+    +-----+          it is put where the blocks in its way weigh least:
//     | +----------+ +------+       over a. Now a waits, and weighs more from then on
//     | |          | |      |
//     +-+----------+-+------+- step
//
// If none waits, the placement is the best, and the capacity goes down. The weights are the trick:
// a block that is pushed out often becomes dear, so that others make room for it. Now and then a
// few placed blocks move to other gaps, which moves free bytes together.
#include "graph/placement/ejection_search.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "graph/placement/neighbours.h"

namespace metronome::plan {
namespace {

/// Work for each block that is looked at: a billion take about a second.
constexpr std::size_t kWorkOfBlock = 50;
/// The capacity goes down by a tenth of what is above `enough`, but no less than by a thousandth of
/// the best. Smaller parts find a little more, in more time.
constexpr std::size_t kPartAbove = 10, kLeastPart = 1000;
/// Blocks put in between moves to other gaps, and how many move then.
constexpr std::size_t kPutsBetween = 10;
constexpr int kMoves = 3;

using Offset = std::int32_t;  // in units
constexpr Offset kWaits = -1;

/// A placed block in the way of one that is put.
struct Beside {
  Offset low, high;
  std::int32_t block;
};

/// The weight of what lies in the way, when an offset is reached: it rises behind the offset, and
/// falls at it.
struct WeightChange {
  Offset at;
  std::int64_t by;
};

class EjectionSearch {
 public:
  EjectionSearch(std::span<const HeldBlock> blocks, const control::Exclusions& excludes,
                 std::size_t unit, const Placement& begin)
      : unit_(unit), neighbours_(list_neighbours(blocks, excludes)) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const HeldBlock& block = blocks[i];
      size_.push_back(static_cast<Offset>(block.bytes / unit));
      offset_.push_back(static_cast<Offset>(begin.offsets[i] / unit));
      const double steps = block.end - block.begin + 1;
      first_weight_.push_back(1 + static_cast<std::int64_t>(std::sqrt(size_[i] * steps)));
    }
    weight_ = first_weight_;
  }

  bool is_whole() const { return waiting_.empty(); }

  /// Blocks that end above wait from here on.
  void lower(std::size_t bytes) {
    capacity_ = static_cast<Offset>(bytes / unit_);
    for (std::size_t i = 0; i < size_.size(); ++i) {
      if (offset_[i] != kWaits && offset_[i] + size_[i] > capacity_) push_out(i);
    }
  }

  /// Puts blocks until none waits, or so much work is done in all.
  void put_all(std::size_t most_work) {
    for (std::size_t puts = 1; !waiting_.empty() && work_ < most_work; ++puts) {
      // The last one comes back where it was, if that is still free; one at random keeps two from
      // taking turns for ever.
      if (random_() % 2 == 0) std::swap(waiting_[random_() % waiting_.size()], waiting_.back());
      const std::int32_t block = waiting_.back();
      waiting_.pop_back();
      put(block);
      if (puts % kPutsBetween != 0) continue;
      for (int i = 0; i < kMoves; ++i) move(static_cast<std::int32_t>(random_() % size_.size()));
    }
  }

  Placement placement() const {
    Placement made;
    for (std::size_t i = 0; i < size_.size(); ++i) {
      made.offsets.push_back(static_cast<std::size_t>(offset_[i]) * unit_);
      made.bytes =
          std::max(made.bytes, made.offsets[i] + static_cast<std::size_t>(size_[i]) * unit_);
    }
    return made;
  }

 private:
  void push_out(std::size_t block) {
    offset_[block] = kWaits;
    waiting_.push_back(static_cast<std::int32_t>(block));
  }

  void find_beside(std::int32_t block) {
    beside_.clear();
    for (const std::int32_t other : neighbours_[block]) {
      if (offset_[other] == kWaits) continue;
      beside_.push_back({offset_[other], offset_[other] + size_[other], other});
    }
    work_ += kWorkOfBlock * neighbours_[block].size();
  }

  /// Puts a block where those in its way weigh least, and pushes them out.
  void put(std::int32_t block) {
    find_beside(block);
    const Offset size = size_[block], offset = lightest(size);
    for (const Beside& other : beside_) {
      if (other.low >= offset + size || other.high <= offset) continue;
      push_out(other.block);
      weight_[other.block] += first_weight_[other.block];
    }
    offset_[block] = offset;
  }

  /// The offset, of equals one at random, at which those of `beside_` in the way weigh least. It is
  /// the lowest one, or the highest, or one that touches a block.
  Offset lightest(Offset size) {
    const Offset last = capacity_ - size;
    std::int64_t weight = 0, weight_at_last = 0;
    changes_.clear();
    for (const Beside& other : beside_) {
      const std::int64_t own = weight_[other.block];
      if (other.high > last) weight_at_last += own;
      if (other.low < size) {
        weight += own;
      } else {
        changes_.push_back({other.low - size, own});
      }
      if (other.high <= last) changes_.push_back({other.high, -own});
    }
    std::ranges::sort(changes_, {}, &WeightChange::at);
    Offset best = 0;
    std::int64_t least = weight;
    std::uint32_t equals = 1;
    const auto consider = [&](Offset offset, std::int64_t weighs) {
      if (weighs > least) return;
      equals = weighs < least ? 1 : equals + 1;
      least = weighs;
      if (random_() % equals == 0) best = offset;
    };
    for (auto change = changes_.begin(); change != changes_.end() && change->at <= last;) {
      const Offset at = change->at;
      std::int64_t behind = 0;
      for (; change != changes_.end() && change->at == at; ++change) {
        (change->by < 0 ? weight : behind) += change->by;
      }
      consider(at, weight);
      weight += behind;
    }
    consider(last, weight_at_last);
    return best;
  }

  /// Moves a block to the lower or the upper end of a gap at random, its own among them.
  void move(std::int32_t block) {
    if (offset_[block] == kWaits || size_[block] == 0) return;
    find_beside(block);
    std::ranges::sort(beside_, {}, &Beside::low);
    beside_.push_back({capacity_, capacity_, -1});
    Offset free = 0, chosen = offset_[block];
    std::uint32_t gaps = 0;
    for (const Beside& other : beside_) {
      if (other.low - free >= size_[block] && random_() % ++gaps == 0) {
        chosen = random_() % 2 == 0 ? free : other.low - size_[block];
      }
      free = std::max(free, other.high);
    }
    offset_[block] = chosen;
  }

  const std::size_t unit_;
  const Neighbours neighbours_;
  Offset capacity_ = 0;
  std::vector<Offset> size_, offset_;                // [block]
  std::vector<std::int64_t> first_weight_, weight_;  // [block] the first once more each time out
  std::vector<std::int32_t> waiting_;
  std::vector<Beside> beside_;
  std::vector<WeightChange> changes_;
  std::minstd_rand random_;
  std::size_t work_ = 0;
};

}  // namespace

Placement lower_by_ejection(std::span<const HeldBlock> blocks, const control::Exclusions& excludes,
                            Placement best, std::size_t enough, std::size_t work) {
  const std::size_t unit = unit_of(blocks);
  // Below the peak some block is larger than the capacity, or two never find room.
  enough = std::max({enough, best.least, peak_of(blocks, excludes).bytes});
  // Sums of two offsets are 32 bits wide.
  if (best.bytes <= enough || best.bytes / unit >= std::size_t{1} << 30) return best;
  if (!has_few_pairs(blocks)) return best;
  work = share_of_work(work, blocks.size());
  EjectionSearch search(blocks, excludes, unit, best);
  while (best.bytes > enough) {
    const std::size_t less =
        std::max({unit, (best.bytes - enough) / kPartAbove, best.bytes / kLeastPart});
    search.lower(std::max(enough, best.bytes - std::min(best.bytes, less)));
    search.put_all(work);
    if (!search.is_whole()) break;
    const std::size_t least = best.least;
    best = search.placement();
    best.least = least;
  }
  return best;
}

}  // namespace metronome::plan
