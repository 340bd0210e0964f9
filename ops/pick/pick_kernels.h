// One element of each row by index, and its gradient. Elements are moved and not looked at.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

/// I: of the index.
template <class Unit, class I>
struct Pick {
  static constexpr const char* name = "pick";
  Unit* to;
  const Unit* from;
  const I* index;
  Index size;     ///< of a row
  Index count;    ///< of rows
  Index ignored;  ///< an index that is not looked up; -1 where there is none
  bool ignores;   ///< whether there is one
  Lookups lookups;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < count; i += stride(c)) {
      const Index at = index[i];
      if (at >= 0 && at < size && at != ignored) {
        to[i] = from[i * size + at];
      } else {
        to[i] = Unit(0);
        if (!ignores || at != ignored) report(c, lookups, at);
      }
    }
  }
};

/// Writes the whole result, kWide elements of a row at once.
template <class Unit, class I, int kWide>
struct PickGrad {
  static constexpr const char* name = "pick_grad";
  Unit* to;
  const Unit* from;
  const I* index;
  Index size;     ///< of a row, a multiple of kWide
  Index count;    ///< elements of the result
  Index ignored;  ///< as in Pick

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c) * kWide; i < count; i += stride(c) * kWide) {
      const Index row = quotient(i, size), column = i - row * size, at = index[row];
      Pack<Unit, kWide> all;
      METRONOME_UNROLL
      for (int k = 0; k < kWide; ++k)
        all.v[k] = column + k == at && at != ignored ? from[row] : Unit(0);
      *reinterpret_cast<Pack<Unit, kWide>*>(to + i) = all;
    }
  }
};

using PickKernels = KernelList<
    Pick<Unit1, int>, Pick<Unit1, long long>, Pick<Unit2, int>, Pick<Unit2, long long>,
    Pick<Unit4, int>, Pick<Unit4, long long>, Pick<Unit8, int>, Pick<Unit8, long long>,
    PickGrad<Unit2, int, 1>, PickGrad<Unit2, long long, 1>, PickGrad<Unit2, int, 8>,
    PickGrad<Unit2, long long, 8>, PickGrad<Unit4, int, 1>, PickGrad<Unit4, long long, 1>,
    PickGrad<Unit8, int, 1>, PickGrad<Unit8, long long, 1>, PickGrad<Unit4, int, 4>,
    PickGrad<Unit4, long long, 4>, PickGrad<Unit8, int, 2>, PickGrad<Unit8, long long, 2>>;

}  // namespace metronome::cuda
