// Shapes, types and layouts are lists of sizes, and these functions do their arithmetic. A rule
// that is missed throws a Requirement with the sizes. Broadcasting compares dimensions from the
// last one on. A layout gives each dimension a place in the tensor that is stored. A blocked
// dimension is stored as two, its blocks and, at the end, the elements of a block:
//
//   [8, 20, 5, 5] in the order 0 2 3 1            is stored as [8, 5, 5, 20]
//   [8, 20, 5, 5] with dimension 1 in blocks      is stored as [8, 2, 5, 5, 16], the last 12 of
//   of 16                                         each second block filled up
#include "graph/ir/type.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/ir/error.h"

namespace metronome {

std::string_view name_of(Element element) {
  switch (element) {
    case f32:
      return "f32";
    case f64:
      return "f64";
    case i32:
      return "i32";
    case i64:
      return "i64";
    case bool_:
      return "bool";
    case bf16:
      return "bf16";
    case f16:
      return "f16";
  }
  throw InternalError("an element type out of range");
}

std::size_t size_of(Element element) {
  switch (element) {
    case f32:
    case i32:
      return 4;
    case f64:
    case i64:
      return 8;
    case bool_:
      return 1;
    case bf16:
    case f16:
      return 2;
  }
  throw InternalError("an element type out of range");
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string to_string(const Type& type) {
  return fmt::format("{}{}", name_of(type.element), to_string(type.shape));
}

void require_possible(const Type& type) {
  double bytes = static_cast<double>(size_of(type.element));  // exact up to kMostBytes
  for (const std::int64_t size : type.shape) {
    if (size < 0) {
      throw Requirement{fmt::format("sizes of 0 or more, but {}", to_string(type.shape))};
    }
    bytes *= static_cast<double>(std::max<std::int64_t>(size, 1));
  }
  if (bytes <= static_cast<double>(kMostBytes)) return;
  throw Requirement{fmt::format("a value of at most 128 TiB, {} bytes, but {} takes {:.3g}",
                                kMostBytes, to_string(type), bytes)};
}

void require_no_half(std::string_view op, std::span<const Type> types) {
  for (const Type& type : types) {
    if (!is_half(type.element)) continue;
    throw Requirement{
        fmt::format("an element type that {} has a kernel for, but {}", op, name_of(type.element)),
        "cast it: x.cast(mt::f32)"};
  }
}

namespace {

/// Whether the f32 that a number is rounded to first stays below `end`, which is half a step beyond
/// the largest number of a narrower type.
bool rounds_below(double number, float end) {
  return holds(f32, number) && std::abs(static_cast<float>(number)) < end;
}

}  // namespace

bool holds(Element element, double number) {
  switch (element) {
    case f32:
      // Half a step beyond the largest f32, where rounding makes a number infinite.
      return !std::isfinite(number) || std::abs(number) < 0x1.ffffffp127;
    case f64:
      return true;
    case i32:
      return number == std::trunc(number) && number >= std::numeric_limits<std::int32_t>::min() &&
             number <= std::numeric_limits<std::int32_t>::max();
    case i64:
      return number == std::trunc(number) && std::abs(number) <= 0x1p53;
    case bool_:
      return number == 0 || number == 1;
    case bf16:
      return !std::isfinite(number) || rounds_below(number, 0x1.ffp127f);
    case f16:
      return !std::isfinite(number) || rounds_below(number, 0x1.ffep15f);
  }
  throw InternalError("an element type out of range");
}

std::string what_holds(Element element) {
  if (element == bool_) return "0 or 1 for bool";
  return fmt::format("a {}number that {} can hold", is_floating(element) ? "" : "whole ",
                     name_of(element));
}

Shape broadcast(const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  Shape result(rank, 1);
  for (std::size_t i = 0; i < rank; ++i) {  // i counts from the last dimension
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      const std::string which =
          i == 0 ? "last dimensions" : fmt::format("dimensions {} from the end", i);
      throw Requirement{fmt::format("equal {}, or one of them 1, but {} and {}", which, x, y)};
    }
    result[rank - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

std::int64_t normalized_axis(std::int64_t axis, std::int64_t rank) {
  if (axis < -rank || axis >= rank) {
    if (rank == 0) throw Requirement{fmt::format("an axis, but a scalar has none (axis {})", axis)};
    throw Requirement{fmt::format("an axis from {} to {}, but {}", -rank, rank - 1, axis)};
  }
  return axis < 0 ? axis + rank : axis;
}

std::optional<Layout> broadcast_layout(const Layout& layout, const Shape& result,
                                       const Shape& operand) {
  if (numel(operand) == 1) return Layout{};  // ones, whatever the order
  const auto missing = static_cast<std::int32_t>(result.size() - operand.size());
  Layout own;
  for (std::size_t i = 0; i < layout.order.size(); ++i) {
    const std::int32_t d = layout.order[i];
    // Dimensions that the operand lacks must be the outermost ones.
    if ((d < missing) != (static_cast<std::int32_t>(i) < missing)) return std::nullopt;
    if (d >= missing) own.order.push_back(d - missing);
  }
  if (layout.blocked < 0) return own;
  if (layout.blocked < missing) return std::nullopt;
  own.blocked = layout.blocked - missing;
  own.block = operand[own.blocked] == 1 ? 1 : layout.block;
  return own;
}

std::string to_string(const Layout& layout, std::size_t rank) {
  if (layout.plain()) return "plain";
  std::vector<std::string> parts(rank);
  for (std::int32_t d = 0; d < static_cast<std::int32_t>(rank); ++d) {
    parts[layout.place_of(d)] =
        std::to_string(d) + (d == layout.blocked ? "/" + std::to_string(layout.block) : "");
  }
  if (layout.blocked >= 0) parts.push_back(std::to_string(layout.block));
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : " ") + part;
  return text;
}

void require_fits(const Layout& layout, std::size_t rank) {
  std::vector<std::int32_t> named = layout.order;
  std::ranges::sort(named);
  bool fits = named.empty() || named.size() == rank;
  for (std::size_t d = 0; d < named.size(); ++d) {
    fits = fits && named[d] == static_cast<std::int32_t>(d);
  }
  const bool blocks =
      layout.blocked >= -1 && layout.blocked < static_cast<std::int32_t>(rank) && layout.block >= 1;
  if (fits && blocks) return;
  throw Requirement{"a layout that names each of the " + std::to_string(rank) +
                    " dimensions once, and blocks of 1 or more of one of them"};
}

}  // namespace metronome
