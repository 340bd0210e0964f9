#include <cstddef>
#include <cstdint>

#include "ops/pool/windows.h"

namespace metronome {

Spatial spatial_of(const Type& x, std::size_t dimensions) {
  return {x.shape.end() - static_cast<std::ptrdiff_t>(dimensions), x.shape.end()};
}

std::int64_t window_extent(const Windows& w, std::size_t d) {
  return w.dilation[d] * (w.kernel[d] - 1) + 1;
}

Spatial window_counts(const Windows& w, const Spatial& sizes) {
  Spatial counts;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const std::int64_t room = sizes[d] + 2 * w.padding[d] - window_extent(w, d);
    const std::int64_t last = w.ceil_mode ? room + w.stride[d] - 1 : room;
    std::int64_t count = last < 0 ? 0 : last / w.stride[d] + 1;
    if (w.ceil_mode && (count - 1) * w.stride[d] >= sizes[d] + w.padding[d]) --count;
    counts.push_back(count);
  }
  return counts;
}

}  // namespace metronome
