// Element types, static shapes, the type of a value, and how it is stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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
/// that compute have no kernels for them (`HalvesRule`), and parameters are not made of them.
constexpr bool is_half(Element e) { return e == bf16 || e == f16; }

/// True for elements that gradients flow through, and that may be NaN or infinite.
constexpr bool is_floating(Element e) { return e == f32 || e == f64 || is_half(e); }

/// Sizes of the dimensions, outermost first; empty for a scalar.
using Shape = std::vector<std::int64_t>;

/// Number of elements: 1 for a scalar, 0 where a dimension is empty.
std::int64_t numel(const Shape& shape);

/// "[64, 256]"; "[]" for a scalar.
std::string to_string(const Shape& shape);

/// The facts of a value that are known before the first step. Values are dense and row-major.
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
/// Says what a number must be for `holds`: "a whole number that i32 can hold".
std::string what_holds(Element element);

/// NumPy's broadcasting of two shapes. Throws `Requirement` naming the two dimensions that differ.
Shape broadcast(const Shape& a, const Shape& b);

/// A dimension counted from the end if negative, as in Python. Throws `Requirement` if out of
/// range.
std::int64_t normalized_axis(std::int64_t axis, std::int64_t rank);

/// How the elements of a tensor are stored: which dimension lies innermost, and which is cut into
/// blocks. Passes decide it (graph/passes/lay_out.h); users see plain tensors.
///
/// A tensor is stored as another, dense and row-major one: its dimensions in another order, one of
/// them cut into blocks that become the innermost dimension, the last block filled up with zeros.
///
///   f32[8, 20, 6, 6] with dimension 1 in blocks of 16   is stored as   f32[8, 2, 6, 6, 16]
///   f32[8, 20, 6, 6] in the order 0 2 3 1               is stored as   f32[8, 6, 6, 20]
struct Layout {
  std::vector<std::int32_t> order = {};  ///< dimensions, outermost first; empty: as declared
  std::int32_t blocked = -1;             ///< the dimension that is cut; -1: none
  std::int64_t block = 1;                ///< its elements in each block

  /// As tensors are that nothing decided about.
  bool plain() const { return order.empty() && blocked < 0; }
  /// The dimension of the storing tensor that holds dimension `d` of the stored one; for the
  /// blocked dimension, the one that counts its blocks.
  std::int32_t place_of(std::int32_t d) const;
  bool operator==(const Layout&) const = default;
};

/// The tensor that stores one of this shape. The layout must fit its rank.
Shape apply_layout(const Layout& layout, const Shape& shape);
Type apply_layout(const Layout& layout, const Type& type);

/// The layout of an operand that is broadcast to a result in `layout`, so that the tensors that
/// store them are broadcast alike; absent where there is none.
std::optional<Layout> broadcast_layout(const Layout& layout, const Shape& result,
                                       const Shape& operand);

/// "0 1/16 2 3 16"; "plain".
std::string to_string(const Layout& layout, std::size_t rank);

/// Throws `Requirement` unless the order, where there is one, names each dimension once, and the
/// blocked dimension is one of them, in blocks of 1 or more.
void require_fits(const Layout& layout, std::size_t rank);

}  // namespace metronome
