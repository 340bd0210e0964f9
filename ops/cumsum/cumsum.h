// Sums of the elements before each, along an axis.
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

/// Operand x, result of its type: each element is the sum of those up to its own along the axis.
/// Sums of f32 are made in f64, in an order that the shape alone says; integers wrap around.
///   x                     1  2  3  4
///   the plain form        1  3  6 10
///   exclusive             0  1  3  6
///   reverse              10  9  7  4
///   exclusive, reverse    9  7  4  0
struct Cumsum {
  static constexpr std::string_view name = "cumsum";
  std::int64_t axis = 0;   ///< counted from the front
  bool exclusive = false;  ///< without the element itself
  bool reverse = false;    ///< from the last element on

  bool operator==(const Cumsum&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Cumsum);
METRONOME_CANDIDATES(Cumsum);

}  // namespace metronome
