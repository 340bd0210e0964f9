#include "ops/convolution/sizes.h"

#include <cstddef>

namespace metronome {

double ConvolutionSizes::flops() const {
  const auto of = [](std::int64_t count) { return static_cast<double>(count); };
  return 2 * of(images) * of(groups) * of(in) * of(out) * of(taps()) * of(places());
}

bool ConvolutionSizes::pointwise() const {
  constexpr Each one{1, 1, 1}, none{0, 0, 0};
  return kernel == one && stride == one && low == none && input == output;
}

ConvolutionSizes sizes_of(const ConvolutionWindow& window, const Shape& input, const Shape& weight,
                          const Shape& output) {
  ConvolutionSizes s;
  const std::size_t dimensions = window.stride.size(), missing = 3 - dimensions;
  s.spatial = static_cast<int>(dimensions);
  s.images = input[0];
  s.groups = window.groups;
  s.in = input[1] / window.groups;
  s.out = output[1] / window.groups;
  for (std::size_t d = 0; d < dimensions; ++d) {
    s.input[missing + d] = input[d + 2];
    s.kernel[missing + d] = weight[d + 2];
    s.output[missing + d] = output[d + 2];
    s.stride[missing + d] = window.stride[d];
    s.dilation[missing + d] = window.dilation[d];
    s.low[missing + d] = window.low[d];
  }
  return s;
}

}  // namespace metronome
