// Values one after the other along an axis.
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

struct Concat {
  static constexpr std::string_view name = "concat";
  std::int64_t axis = 0;

  bool operator==(const Concat&) const = default;
  bool moves() const { return true; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  std::vector<Inside> inside(std::span<const Type> in) const;
  /// Absent if the operands' shapes differ, or if operands are made inside the result.
  std::optional<Fusion> fusion(std::span<const Type> in) const;
  Value fold(std::span<const Value> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Concat);

}  // namespace metronome
