// Element types, static shapes and the type of a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace metronome {

enum class Element : std::uint8_t { f32, f64, i32, i64, bool_, bf16, f16 };
using enum Element;

/// "f32", "f64", "i32", "i64", "bool", "bf16" or "f16".
std::string_view name_of(Element element);

/// Bytes of one element.
std::size_t size_of(Element element);

/// True for elements of two bytes (graph/ir/half.h). They are fed, read, kept, moved and cast; ops
/// that compute have no kernels for them (`Op::halves`), and parameters are not made of them.
constexpr bool is_half(Element e) { return e == bf16 || e == f16; }

/// True for elements that gradients flow through, and that may be NaN or infinite.
constexpr bool is_floating(Element e) { return e == f32 || e == f64 || is_half(e); }

/// Sizes of the dimensions, outermost first; empty for a scalar.
using Shape = std::vector<std::int64_t>;

/// Number of elements: 1 for a scalar, 0 where a dimension is empty.
std::int64_t numel(const Shape& shape);

/// "[64, 256]"; "[]" for a scalar.
std::string to_string(const Shape& shape);

/// What is known of a value before the first step. Values are dense and row-major.
struct Type {
  Element element = f32;
  Shape shape;

  std::int64_t numel() const { return metronome::numel(shape); }
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * size_of(element); }
  std::int64_t rank() const { return static_cast<std::int64_t>(shape.size()); }
  bool operator==(const Type&) const = default;
};

using Types = std::vector<Type>;

/// "f32[64, 256]".
std::string to_string(const Type& type);

/// Bytes that a value may have: 128 TiB, the addresses of a process on x86-64. So sums over the
/// values of a graph stay far below 2^64.
inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 47;

/// Throws `Requirement` unless sizes are 0 or more and the type has at most `kMostBytes`. An empty
/// dimension counts as one there, as kernels multiply sizes of parts of a shape. Every type of a
/// graph has passed it: `numel` and `bytes` never overflow.
void require_possible(const Type& type);

/// Throws `Requirement` if one of the types is of two bytes: for an op that has no kernel for
/// those.
void require_no_half(std::string_view op, std::span<const Type> types);

/// True if elements of this type can be `number`: whole and in range for integers (up to 2^53, past
/// which a double tells whole numbers no longer apart), 0 or 1 for bool; a floating type holds
/// every number that rounding does not make infinite, and infinities and NaN themselves.
bool holds(Element element, double number);
/// What a number must be for `holds`: "a whole number that i32 can hold".
std::string what_holds(Element element);

/// NumPy's broadcasting of two shapes. Throws `Requirement` naming the two dimensions that differ.
Shape broadcast(const Shape& a, const Shape& b);

/// A dimension counted from the end if negative, as in Python. Throws `Requirement` if out of
/// range.
std::int64_t normalized_axis(std::int64_t axis, std::int64_t rank);

}  // namespace metronome
