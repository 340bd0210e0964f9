// The kernels beside the library's products.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"

namespace metronome::cuda {

/// d [rows, columns] += bias [columns], `kEach` neighbours at a time.
template <class T, int kEach>
struct AddBias {
  static constexpr const char* name = "add_bias";
  T* d;
  const T* bias;
  Index count;  ///< of packs in d
  Index width;  ///< packs of a row
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    using Elements = Pack<T, kEach>;
    auto* sums = reinterpret_cast<Elements*>(d);
    const auto* terms = reinterpret_cast<const Elements*>(bias);
    const Index step = stride(c) - quotient(stride(c), width) * width;
    Index column = first(c) - quotient(first(c), width) * width;
    for (Index i = first(c); i < count; i += stride(c)) {
      Elements sum = sums[i];
      const Elements term = terms[column];
      for (int k = 0; k < kEach; ++k) sum.v[k] = watched(c, watch, sum.v[k] + term.v[k]);
      sums[i] = sum;
      column += step;
      if (column >= width) column -= width;
    }
  }
};

using MatmulKernels =
    KernelList<AddBias<float, 1>, AddBias<float, 4>, AddBias<double, 1>, AddBias<double, 2>>;

}  // namespace metronome::cuda
