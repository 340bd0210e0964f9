// The same elements in another shape: a view.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/rules/rules.h"

namespace metronome {

struct Reshape {
  static constexpr std::string_view name = "reshape";
  Shape shape;

  bool operator==(const Reshape&) const = default;
  bool moves() const { return true; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  std::optional<Alias> alias(std::span<const Type>) const { return Alias{}; }
  Value fold(std::span<const Value> in) const;
  static std::vector<Case> cases();
};

Tensors reference(const Reshape& op, const Tensors& inputs);

/// The product of all sizes but those of -1. Throws Requirement where no value has so many.
std::int64_t elements_beside_free(Element element, Shape shape);

}  // namespace metronome
