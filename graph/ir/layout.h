// How the elements of a tensor are stored: which dimension lies innermost, and which is cut into
// blocks. Passes decide it (graph/passes/lay_out.h); users see plain tensors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/ir/error.h"
#include "graph/ir/type.h"

namespace metronome {

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
  /// Where the storing tensor has dimension `d` of the stored one: of a blocked one its blocks.
  std::int32_t place_of(std::int32_t d) const {
    return order.empty() ? d
                         : static_cast<std::int32_t>(std::ranges::find(order, d) - order.begin());
  }
  bool operator==(const Layout&) const = default;
};

/// The shape of the tensor that stores one of this shape. The layout must fit its rank.
inline Shape stored(const Layout& layout, const Shape& shape) {
  Shape result(shape.size());
  for (std::int32_t d = 0; d < static_cast<std::int32_t>(shape.size()); ++d) {
    const std::int64_t size = shape[d];
    result[layout.place_of(d)] =
        d == layout.blocked ? (size + layout.block - 1) / layout.block : size;
  }
  if (layout.blocked >= 0) result.push_back(layout.block);
  return result;
}
inline Type stored(const Layout& layout, const Type& type) {
  return {type.element, stored(layout, type.shape)};
}

/// The layout of an operand that is broadcast to a result in `layout`, so that the tensors that
/// store them are broadcast alike; absent where there is none.
inline std::optional<Layout> broadcast_layout(const Layout& layout, const Shape& result,
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

/// "0 1/16 2 3 16"; "plain".
inline std::string to_string(const Layout& layout, std::size_t rank) {
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

/// Throws `Requirement` unless the order, where there is one, names each dimension once, and the
/// blocked dimension is one of them, in blocks of 1 or more.
inline void require_fits(const Layout& layout, std::size_t rank) {
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
