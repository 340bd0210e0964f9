// Broadcasting to a shape, as a copy.
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

/// Its operand repeated to a shape that it broadcasts to. Values are dense, so this is a copy;
/// elementwise ops that read it take its operand instead.
struct Expand {
  static constexpr std::string_view name = "expand";
  Shape shape;

  bool operator==(const Expand&) const = default;
  bool moves() const { return true; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  std::optional<Fusion> fusion(std::span<const Type>) const { return Fusion{}; }
  std::optional<LaidOutOp> lay_out(std::span<const Type> in, const Layout& layout) const;
  Value fold(std::span<const Value> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Expand);
METRONOME_MAP(Expand);

}  // namespace metronome
