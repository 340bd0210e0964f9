// Ranges of an axis, copied out and put back among zeros.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"

namespace metronome::cuda {

/// Rows of `part` units that lie `whole` units apart, one after the other.
template <class Unit>
struct Slice {
  static constexpr const char* name = "slice";
  Unit* to;
  const Unit* from;  ///< the first row's first unit
  Index part, whole;
  Index count;  ///< units of the result

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < count; i += stride(c)) {
      to[i] = from[i + quotient(i, part) * (whole - part)];
    }
  }
};

/// The other way round: zeros before and behind each row.
template <class Unit>
struct SliceGrad {
  static constexpr const char* name = "slice_grad";
  Unit* to;
  const Unit* from;
  Index part, whole;
  Index offset;  ///< of a row in its whole
  Index count;   ///< units of the result

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < count; i += stride(c)) {
      const Index row = quotient(i, whole), at = i - row * whole - offset;
      to[i] = at >= 0 && at < part ? from[row * part + at] : Unit{};
    }
  }
};

/// Rows of `part` elements added to their places in rows of `whole`, which are otherwise as they
/// were in `sum`; `to` may be `sum`.
template <class T>
struct SliceAdd {
  static constexpr const char* name = "slice_add";
  T* to;
  const T* sum;
  const T* from;
  Index part, whole;
  Index offset;  ///< of a row in its whole
  Index rows;
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    if (to == sum) {
      for (Index i = first(c); i < rows * part; i += stride(c)) {
        const Index at = i + quotient(i, part) * (whole - part) + offset;
        to[at] = watch_number(c, watch, T(sum[at] + from[i]));
      }
      return;
    }
    for (Index i = first(c); i < rows * whole; i += stride(c)) {
      const Index row = quotient(i, whole), at = i - row * whole - offset;
      const bool inside = at >= 0 && at < part;
      to[i] = inside ? watch_number(c, watch, T(sum[i] + from[row * part + at])) : sum[i];
    }
  }
};

using SliceKernels = KernelList<SliceAdd<float>, SliceAdd<double>, SliceAdd<BFloat16>,
                                SliceAdd<Float16>, Slice<Unit1>, Slice<Unit2>, Slice<Unit4>,
                                Slice<Unit8>, Slice<Unit16>, SliceGrad<Unit1>, SliceGrad<Unit2>,
                                SliceGrad<Unit4>, SliceGrad<Unit8>, SliceGrad<Unit16>>;

}  // namespace metronome::cuda
