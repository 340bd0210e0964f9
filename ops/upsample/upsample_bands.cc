// Interpolation as maps along dimensions: libtorch's formulas for places.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/rules/by_element.h"
#include "ops/upsample/upsample.h"

namespace metronome {
namespace {

/// scale: 0 if there is none.
Bands nearest(std::int64_t in, std::int64_t out, double scale) {
  const float ratio = scale > 0 ? static_cast<float>(1.0 / scale)
                                : static_cast<float>(in) / static_cast<float>(out);
  std::vector<std::int32_t> place;
  for (std::int64_t o = 0; o < out; ++o) {
    std::int64_t i = static_cast<std::int64_t>(std::floor(static_cast<float>(o) * ratio));
    if (out == in) i = o;
    if (out == 2 * in) i = o / 2;
    place.push_back(static_cast<std::int32_t>(std::min(i, in - 1)));
  }
  return blends(in, place, place, std::vector<double>(place.size(), 0));
}

template <class T>
Bands linear(std::int64_t in, std::int64_t out, double scale, bool align_corners) {
  T ratio = scale > 0 ? static_cast<T>(1.0 / scale) : static_cast<T>(in) / static_cast<T>(out);
  if (align_corners) ratio = out > 1 ? static_cast<T>(in - 1) / static_cast<T>(out - 1) : T(0);
  std::vector<std::int32_t> low, high;
  std::vector<double> share;
  for (std::int64_t o = 0; o < out; ++o) {
    T place = static_cast<T>(o) * ratio;
    if (!align_corners) {
      place = std::max(ratio * (static_cast<T>(o) + T(0.5)) - T(0.5), T(0));
    }
    const std::int64_t begin = std::min(static_cast<std::int64_t>(place), in - 1);
    low.push_back(static_cast<std::int32_t>(begin));
    high.push_back(static_cast<std::int32_t>(std::min(begin + 1, in - 1)));
    share.push_back(std::clamp(place - static_cast<T>(begin), T(0), T(1)));
  }
  return blends(in, low, high, share);
}

}  // namespace

BandsOf3 Resizing::bands(const Spatial& sizes, Element element) const {
  BandsOf3 result{one_band(), one_band(), one_band()};
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const double scale = scales.empty() ? 0 : scales[d];
    Bands& along = result[3 - sizes.size() + d];
    if (mode == Mode::nearest || out[d] == sizes[d]) {
      along = nearest(sizes[d], out[d], scale);
    } else {
      along = with_floating(element, [&](auto x) {
        return linear<decltype(x)>(sizes[d], out[d], scale, align_corners);
      });
    }
  }
  return result;
}

}  // namespace metronome
