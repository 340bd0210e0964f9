// Windows over the spatial dimensions of x [N, C, spatial...]: what pooling asks of shapes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/type.h"

namespace metronome {

/// A number for each spatial dimension, one to three.
using Spatial = std::vector<std::int64_t>;

/// Windows of x: from -padding on, `stride` apart, of `kernel` elements `dilation` apart. With
/// ceil_mode a last window may reach beyond the padding, if it begins before.
///
///   x[5], kernel 2, stride 2    windows 0-1, 2-3; with ceil_mode also 4
struct Windows {
  Spatial kernel;
  Spatial stride;
  Spatial padding;
  Spatial dilation;
  bool ceil_mode = false;

  bool operator==(const Windows&) const = default;
  /// "kernel=[2, 2], stride=[2, 2]"; what is as PyTorch's default is left out.
  std::string text() const;
};

/// [N, C, sizes...] as `x`. Throws Requirement where x is not floating, is no [N, C, spatial...] of
/// `dimensions` spatial dimensions, or has channels or spatial dimensions that are empty or larger
/// than 2^30.
void require_images(const Type& x, std::size_t dimensions);
Type with_spatial(const Type& x, const Spatial& sizes);
/// The last dimensions of x.
Spatial spatial_of(const Type& x, std::size_t dimensions);

/// How many windows lie along each dimension. Throws Requirement where a number of `windows` is out
/// of range or no window fits; conditions are PyTorch's.
Spatial count_of(const Windows& windows, const Spatial& sizes);
/// Elements of dimension d that a window spans.
std::int64_t window_extent(const Windows& windows, std::size_t d);
/// The counts of `count_of`, of windows that are known to fit.
Spatial window_counts(const Windows& windows, const Spatial& sizes);

/// The windows over `in` that give `out`, along each of three dimensions; where there are fewer,
/// the first ones are `WindowLine{}`. An `WindowLine` is {in, out, kernel, stride, padding,
/// dilation}.
template <class WindowLine>
std::array<WindowLine, 3> windows_along(const Windows& w, const Shape& in, const Shape& out) {
  std::array<WindowLine, 3> result;
  const std::size_t n = w.kernel.size();
  for (std::size_t d = 0; d < n; ++d) {
    result[3 - n + d] = {in[2 + d],   out[2 + d],   w.kernel[d],
                         w.stride[d], w.padding[d], w.dilation[d]};
  }
  return result;
}

}  // namespace metronome
