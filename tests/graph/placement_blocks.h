// Blocks at random, of known optimum or not, and what holds of their placements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "graph/placement/greedy_placement.h"

namespace metronome::testing::placement_blocks {

using Blocks = std::vector<plan::HeldBlock>;

/// True if no two blocks that meet share bytes.
inline bool is_valid(const Blocks& blocks, const plan::Placement& placement,
                     const control::Exclusions& excludes = {}) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (placement.offsets[i] + blocks[i].bytes > placement.bytes) return false;
    for (std::size_t k = 0; k < i; ++k) {
      const bool beside = placement.offsets[i] >= placement.offsets[k] + blocks[k].bytes ||
                          placement.offsets[k] >= placement.offsets[i] + blocks[i].bytes;
      if (!beside && plan::meet(blocks[i], blocks[k], excludes)) return false;
    }
  }
  return true;
}

inline Blocks random_blocks(std::mt19937& random, int count) {
  Blocks blocks;
  for (int i = 0; i < count; ++i) {
    const auto begin = static_cast<std::int32_t>(random() % 12);
    const auto steps = static_cast<std::int32_t>(random() % 5);
    blocks.push_back({begin, begin + steps, (1 + random() % 9) * 16});
  }
  return blocks;
}

/// The fewest bytes of all orders in which blocks fall on those before them.
inline std::size_t optimum_of(const Blocks& blocks) {
  const control::Exclusions none;
  plan::GreedyPlacer greedy(blocks, none);
  plan::Order order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::size_t least = SIZE_MAX;
  do {
    least = std::min(least, greedy.run(order, plan::Fit::first).bytes);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

/// A rectangle of steps and units of bytes, cut into blocks at random: they fit without a gap. Then
/// blocks in so many of a hundred go, and of the others so many lose the second half of their
/// steps, but for those of one step, whose bytes stay the optimum.
inline Blocks cut_rectangle(std::mt19937& random, std::size_t count, std::int32_t units,
                            unsigned gone, unsigned halved = 0) {
  struct Piece {
    std::int32_t begin, end, low, high;
  };
  const auto steps = static_cast<std::int32_t>(2 * count);
  std::vector<Piece> pieces = {{0, steps, 0, units}};
  while (pieces.size() < count) {
    std::size_t at = random() % pieces.size();
    for (int k = 0; k < 3; ++k) {  // rather large ones
      const std::size_t other = random() % pieces.size();
      const auto area = [&](std::size_t i) {
        return std::int64_t{pieces[i].end - pieces[i].begin} * (pieces[i].high - pieces[i].low);
      };
      if (area(other) > area(at)) at = other;
    }
    Piece& piece = pieces[at];
    Piece other = piece;
    const std::int32_t wide = piece.end - piece.begin, high = piece.high - piece.low;
    if (random() % 2 == 0 && wide > 1) {
      piece.end = other.begin =
          piece.begin + 1 + static_cast<std::int32_t>(random() % static_cast<unsigned>(wide - 1));
    } else if (high > 1) {
      piece.high = other.low =
          piece.low + 1 + static_cast<std::int32_t>(random() % static_cast<unsigned>(high - 1));
    } else {
      continue;
    }
    pieces.push_back(other);
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  const auto full = static_cast<std::int32_t>(random() % static_cast<unsigned>(steps));
  Blocks blocks;
  for (const Piece& piece : pieces) {
    const bool stays = piece.begin <= full && full < piece.end;
    if (!stays && random() % 100 < gone) continue;
    const bool is_halved = !stays && halved > 0 && random() % 100 < halved;
    const std::int32_t end = is_halved ? (piece.begin + piece.end + 1) / 2 : piece.end;
    blocks.push_back({piece.begin, end - 1, static_cast<std::size_t>(piece.high - piece.low) * 64});
  }
  return blocks;
}

}  // namespace metronome::testing::placement_blocks
