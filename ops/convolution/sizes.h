// The sizes of one convolution, as kernels walk over them.
#pragma once

#include <array>
#include <cstdint>

#include "ops/convolution/convolution.h"

namespace metronome {

/// Always three spatial dimensions: those that are missing come first and have the size 1.
struct ConvolutionSizes {
  using Each = std::array<std::int64_t, 3>;
  int spatial = 0;  ///< dimensions that there are
  std::int64_t images = 0;
  std::int64_t groups = 1;
  std::int64_t in = 0;   ///< channels of a group
  std::int64_t out = 0;  ///< outputs of a group
  Each input{1, 1, 1}, kernel{1, 1, 1}, output{1, 1, 1};
  Each stride{1, 1, 1}, dilation{1, 1, 1}, low{0, 0, 0};

  static std::int64_t product(const Each& each) { return each[0] * each[1] * each[2]; }
  std::int64_t points() const { return product(input); }
  std::int64_t taps() const { return product(kernel); }
  std::int64_t places() const { return product(output); }  ///< of the kernel
  /// 2 for each product and sum of all that is computed, whichever of the three is.
  double flops() const;
  /// True where the kernel is one element at each element: a product of matrices as it is.
  bool pointwise() const;
};

/// Sizes from the shapes of x, weight and y, which the ops' shape rules took.
ConvolutionSizes sizes_of(const ConvolutionWindow& window, const Shape& input, const Shape& weight,
                          const Shape& output);

}  // namespace metronome
