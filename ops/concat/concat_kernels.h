// Values one after the other along an axis, all of them by one kernel.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"

namespace metronome::cuda {

/// An operand: rows of `width` units, which begin at `begin` in the result's rows.
template <class Unit>
struct ConcatPart {
  const Unit* from;
  Index begin, width;
};

template <class Unit>
struct Concat {
  static constexpr const char* name = "concat";
  static constexpr int kFew = 8;  ///< operands that the arguments themselves can hold
  Unit* to;
  Index whole;                   ///< units of a row of the result
  Index count;                   ///< units of the result
  int parts;                     ///< none of them empty
  const ConcatPart<Unit>* many;  ///< in device memory; null where they are few
  ConcatPart<Unit> few[kFew];

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < count; i += stride(c)) {
      const Index row = quotient(i, whole), at = i - row * whole;
      int low = 0, high = parts;  // the part lies in [low, high)
      while (high - low > 1) {
        const int middle = (low + high) / 2;
        (part(middle).begin <= at ? low : high) = middle;
      }
      const ConcatPart<Unit>& found = part(low);
      to[i] = found.from[row * found.width + at - found.begin];
    }
  }

 private:
  METRONOME_DEVICE const ConcatPart<Unit>& part(int i) const {
    return many != nullptr ? many[i] : few[i];
  }
};

using ConcatKernels =
    KernelList<Concat<Unit1>, Concat<Unit2>, Concat<Unit4>, Concat<Unit8>, Concat<Unit16>>;

}  // namespace metronome::cuda
