// Checks that shape rules make on their inputs, and the error that they throw: Requirement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graph/ir/error.h"
#include "graph/ir/type.h"

namespace metronome {

void require_floating(const Type& type);  ///< f32 or f64
void require_number(const Type& type);    ///< anything but bool, bf16 and f16
void require_boolean(const Type& type);
void require_integer(const Type& type);  ///< i32 or i64
/// 1 or more: "a number of heads of 1 or more, but 0".
void require_at_least_one(std::string_view what, std::int64_t count);
/// Broadcasting would hide a forgotten dimension; `second` names the operand that the way out
/// reshapes.
void require_equal_shapes(const Type& a, const Type& b, std::string_view second);
/// `first` is the place of types[0] among the operands of the op, whose message numbers them.
void require_equal_elements(std::span<const Type> types, std::size_t first = 0);
/// Returns the casts that make all operands equal and lose nothing that PyTorch's type promotion
/// would keep: "cast operand 1 to f64: x.cast(mt::f64)".
std::string way_to_equal_elements(std::span<const Type> types, std::size_t first = 0);

// Each returns what a number misses, or nothing; `what` names it ("learning rate"). NaN misses
// each.
std::optional<Requirement> unless_finite(std::string_view what, double x);
std::optional<Requirement> unless_at_least_0(std::string_view what, double x);  ///< and finite
std::optional<Requirement> unless_above_0(std::string_view what, double x);     ///< and finite
std::optional<Requirement> unless_share(std::string_view what, double x);       ///< 0 to 1
std::optional<Requirement> unless_below_1(std::string_view what, double x);     ///< 0 to below 1
/// The first that is missed.
std::optional<Requirement> first_of(std::initializer_list<std::optional<Requirement>> missed);
/// Throws what is missed.
void require(const std::optional<Requirement>& missed);

}  // namespace metronome
