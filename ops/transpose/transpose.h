// Dimensions in another order, as a copy.
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

/// Dimension i of the result is dimension axes[i] of the operand. A view where only dimensions of
/// one element move.
struct Transpose {
  static constexpr std::string_view name = "transpose";
  std::vector<std::int64_t> axes;

  bool operator==(const Transpose&) const = default;
  bool moves() const { return true; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  std::optional<Alias> alias(std::span<const Type> in) const;
  Value fold(std::span<const Value> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Transpose);

}  // namespace metronome
