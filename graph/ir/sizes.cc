// Arithmetic of sizes that refuses nothing: kernels ask for it, too.
#include <algorithm>
#include <cstdint>

#include "graph/ir/type.h"

namespace metronome {

std::int64_t numel(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

std::int32_t Layout::place_of(std::int32_t d) const {
  if (order.empty()) return d;
  return static_cast<std::int32_t>(std::ranges::find(order, d) - order.begin());
}

Shape apply_layout(const Layout& layout, const Shape& shape) {
  Shape result(shape.size());
  for (std::int32_t d = 0; d < static_cast<std::int32_t>(shape.size()); ++d) {
    const std::int64_t size = shape[d];
    result[layout.place_of(d)] =
        d == layout.blocked ? (size + layout.block - 1) / layout.block : size;
  }
  if (layout.blocked >= 0) result.push_back(layout.block);
  return result;
}
Type apply_layout(const Layout& layout, const Type& type) {
  return {type.element, apply_layout(layout, type.shape)};
}

}  // namespace metronome
