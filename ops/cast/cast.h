// Another element type.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/rules/rules.h"

namespace metronome {

/// Converts numbers to another element type. To bf16 and f16 numbers are rounded to nearest, ties
/// to even (those of other types but f32 by way of f32, as libtorch does), or become infinite; NaN
/// stays NaN. Floating to integer truncates toward zero (of numbers that the integer cannot hold,
/// and of NaN, the result is unspecified); to bool asks whether a number differs from zero; bool
/// gives 0 or 1.
struct Cast {
  static constexpr std::string_view name = "cast";
  Element element = f32;

  bool operator==(const Cast&) const = default;
  bool halves() const { return true; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  /// A gradient flows between floating types only.
  Values vjp(const Vjp& v) const;
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
  std::optional<Fusion> fusion(std::span<const Type>) const { return Fusion{}; }
  Value fold(std::span<const Value> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Cast);
METRONOME_MAP(Cast);

}  // namespace metronome
