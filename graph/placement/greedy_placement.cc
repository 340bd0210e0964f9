#include "graph/placement/greedy_placement.h"

#include <bit>
#include <cstring>

namespace metronome::plan {

Placement GreedyPlacer::run(const Order& order, Fit fit) {
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

std::size_t GreedyPlacer::find(const HeldBlock& block, Fit fit,
                               std::span<const std::size_t> offsets) {
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

// Without a branch for each of them: mispredicted branches would make it several times as slow.
void GreedyPlacer::find_beside(const HeldBlock& block) {
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

}  // namespace metronome::plan
