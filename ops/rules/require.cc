#include "ops/rules/require.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

namespace metronome {

namespace {

void require_computed(const Type& type) {
  if (!is_half(type.element)) return;
  throw Requirement{fmt::format("f32 or f64, as nothing computes in {}", name_of(type.element)),
                    "cast it: x.cast(mt::f32)"};
}

}  // namespace

void require_floating(const Type& type) {
  require_computed(type);
  if (is_floating(type.element)) return;
  throw Requirement{fmt::format("a floating element type, but {}", name_of(type.element)),
                    "cast it: x.cast(mt::f32)"};
}

void require_number(const Type& type) {
  require_computed(type);
  if (type.element != bool_) return;
  throw Requirement{"a number element type, but bool", "cast it: x.cast(mt::f32)"};
}

void require_boolean(const Type& type) {
  if (type.element == bool_) return;
  throw Requirement{fmt::format("the element type bool, but {}", name_of(type.element)),
                    "compare it: mt::not_equal(x, 0)"};
}

void require_integer(const Type& type) {
  if (type.element == i32 || type.element == i64) return;
  throw Requirement{fmt::format("an index of i32 or i64, but {}", name_of(type.element)),
                    "cast it: index.cast(mt::i64)"};
}

void require_at_least_one(std::string_view what, std::int64_t count) {
  if (count < 1) throw Requirement{fmt::format("{} of 1 or more, but {}", what, count)};
}

namespace {

/// The element type that holds what both do: floating before whole before bool, then the wider, as
/// torch.promote_types.
Element promote(Element a, Element b) {
  const auto order = [](Element e) {
    switch (e) {
      case bool_:
        return 0;
      case i32:
        return 1;
      case i64:
        return 2;
      case bf16:
      case f16:
        return 3;
      case f32:
        return 4;
      case f64:
        return 5;
    }
    throw InternalError("an element type out of range");
  };
  if (a != b && is_half(a) && is_half(b)) return f32;  // either lacks numbers of the other
  return order(a) < order(b) ? b : a;
}

}  // namespace

std::string way_to_equal_elements(std::span<const Type> types, std::size_t first) {
  Element to = types[0].element;
  for (const Type& type : types) to = promote(to, type.element);
  std::vector<std::size_t> operands;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i].element != to) operands.push_back(first + i);
  }
  return fmt::format("cast operand{} {} to {}: x.cast(mt::{})", operands.size() > 1 ? "s" : "",
                     fmt::join(operands, ", "), name_of(to), name_of(to));
}

void require_equal_shapes(const Type& a, const Type& b, std::string_view second) {
  if (a.shape == b.shape) return;
  throw Requirement{
      fmt::format("equal shapes, but {} and {}", to_string(a.shape), to_string(b.shape)),
      a.numel() != b.numel()
          ? ""
          : fmt::format("reshape one: {}.reshape({{{}}})", second, fmt::join(a.shape, ", "))};
}

void require_equal_elements(std::span<const Type> types, std::size_t first) {
  for (const Type& type : types) {
    if (type.element == types[0].element) continue;
    throw Requirement{fmt::format("equal element types, but {} and {}", name_of(types[0].element),
                                  name_of(type.element)),
                      way_to_equal_elements(types, first)};
  }
}

std::optional<Requirement> unless_finite(std::string_view what, double x) {
  if (std::isfinite(x)) return std::nullopt;
  return Requirement{fmt::format("a finite {}, but {}", what, x)};
}

std::optional<Requirement> unless_at_least_0(std::string_view what, double x) {
  if (x >= 0 && std::isfinite(x)) return std::nullopt;
  return Requirement{fmt::format("a finite {} of 0 or more, but {}", what, x)};
}

std::optional<Requirement> unless_above_0(std::string_view what, double x) {
  if (x > 0 && std::isfinite(x)) return std::nullopt;
  return Requirement{fmt::format("a finite {} above 0, but {}", what, x)};
}

std::optional<Requirement> unless_share(std::string_view what, double x) {
  if (x >= 0 && x <= 1) return std::nullopt;
  return Requirement{fmt::format("a {} from 0 to 1, but {}", what, x)};
}

std::optional<Requirement> unless_below_1(std::string_view what, double x) {
  if (x >= 0 && x < 1) return std::nullopt;
  return Requirement{fmt::format("a {} from 0 to below 1, but {}", what, x)};
}

std::optional<Requirement> first_of(std::initializer_list<std::optional<Requirement>> missed) {
  for (const auto& one : missed) {
    if (one) return one;
  }
  return std::nullopt;
}

void require(const std::optional<Requirement>& missed) {
  if (missed) throw *missed;
}

}  // namespace metronome
