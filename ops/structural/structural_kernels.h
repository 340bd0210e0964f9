// Kernels of the structural ops that are more than copies.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"

namespace metronome::cuda {

template <class T>
struct Fill {
  static constexpr const char* name = "fill";
  T* to;
  Index count;
  T number;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < count; i += stride(c)) to[i] = number;
  }
};

struct Increment {
  static constexpr const char* name = "increment";
  long long* to;
  const long long* from;  ///< may be `to`

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    if (first(c) == 0) *to = *from + 1;
  }
};

using StructuralKernels = KernelList<Fill<float>, Fill<double>, Fill<int>, Fill<long long>,
                                     Fill<bool>, Fill<BFloat16>, Fill<Float16>, Increment>;

}  // namespace metronome::cuda
