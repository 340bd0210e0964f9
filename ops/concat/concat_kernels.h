// Values one after the other along an axis, all of them by one kernel.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"

namespace metronome::cuda {

/// Rows of `width` units, which go to unit `to` of the result's rows. The parts before it take
/// `begin` units of each row.
template <class Unit>
struct ConcatPart {
  const Unit* from;  ///< null: zeros
  Index begin, width, to;
};

template <class Unit>
struct Concat {
  static constexpr const char* name = "concat";
  static constexpr int kFew = 8;  ///< operands that the arguments themselves can hold
  Unit* to;
  Index row;                     ///< units of a row of the result
  Index written;                 ///< units of a row that are written
  Index count;                   ///< units that are written, of all rows
  int parts;                     ///< none of them empty
  const ConcatPart<Unit>* many;  ///< in device memory; null where they are few
  ConcatPart<Unit> few[kFew];

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < count; i += stride(c)) {
      const Index in_row = quotient(i, written), at = i - in_row * written;
      int low = 0, high = parts;  // the part lies in [low, high)
      while (high - low > 1) {
        const int middle = (low + high) / 2;
        (part(middle).begin <= at ? low : high) = middle;
      }
      const ConcatPart<Unit>& found = part(low);
      const Index in_part = at - found.begin;
      to[in_row * row + found.to + in_part] =
          found.from != nullptr ? found.from[in_row * found.width + in_part] : Unit{};
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
