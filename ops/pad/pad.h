// A constant around a value, or its edges cut off.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/rules/rules.h"

namespace metronome {

/// Dimension d grows by low[d] elements in front and high[d] behind, all equal to `number`; where
/// one is negative so many elements are cut off. Its gradient is a pad with both negated.
///
///   low {0, -1}, high {1, 2}    x[2, 3] -> [3, 4]: a row more below; a column less, two more
struct Pad {
  static constexpr std::string_view name = "pad";
  std::vector<std::int64_t> low;
  std::vector<std::int64_t> high;
  double number = 0;

  bool operator==(const Pad&) const = default;
  bool moves() const { return true; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  /// Returns the operand if nothing is added to it.
  Value fold(std::span<const Value> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Pad);

/// A dimension of a pad, with those behind it that stay as they are: `out` elements, of which those
/// from `low` on are the `in` of the operand.
struct PaddedDimension {
  std::int64_t out = 1;
  std::int64_t in = 1;
  std::int64_t low = 0;
};

/// Outermost first, at most 40; dimensions of one element that stay are left out. Never none.
std::vector<PaddedDimension> dimensions_of(const Pad& op, const Type& operand);

}  // namespace metronome
