// Random numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/rules/rules.h"

namespace metronome {

/// The range of the numbers by which a draw is made.
struct DrawBounds {
  static constexpr int kOperand = 2;  ///< that has them
  double least = 0, most = 0;
};

/// Independent draws of one distribution, f32 or f64. Operands: seed i64[], draws i64[], the number
/// of earlier steps that drew. Element i is made of the words of philox(seed, draws, key, block)
/// that follow from n = first + i alone (ops/kernel/draws.h): the same bits on every
/// target. Ranks that share a batch number their elements one after the other.
///
/// A draw `of` something has a third operand, of its own element type: numbers that say how
/// probable each draw is. No element is made of them. One that is impossible is reported.
struct Random {
  static constexpr std::string_view name = "random";
  static constexpr bool differentiable = false;
  enum class Kind : std::uint8_t {
    uniform,  ///< in [0, 1)
    normal,   ///< of mean 0 and deviation 1, where its distribution function is in [low, high]
    gumbel,   ///< -log(-log(u)): Gumbel, "Statistical theory of extreme values", 1954
  };

  enum class Of : std::uint8_t {
    nothing,
    probabilities,  ///< from 0 to 1
    logits,         ///< the largest of each row: finite
    weights,        ///< a row's least if it is below 0, else its largest: finite and above 0
  };

  Kind kind = Kind::uniform;
  Type type;
  double low = 0, high = 1;
  Of of = Of::nothing;
  bool same_on_ranks = false;
  std::uint64_t key = 0;    ///< set when the node is made
  std::uint64_t first = 0;  ///< number of the first element

  bool operator==(const Random&) const = default;
  std::string attributes() const;  ///< without `first`: the same text on all ranks
  Types infer(std::span<const Type> in) const;
  /// The bounds of the numbers by which it draws; absent where there are none.
  std::optional<DrawBounds> bounds() const;
  std::optional<NumberLimits> limits() const;
  OpPtr on_rank(std::span<const Type> in, int rank) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Random);

}  // namespace metronome
