// A number around a tensor, or its edges cut off. Elements are moved and not looked at.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"

namespace metronome::cuda {

template <class Unit>
struct Pad {
  static constexpr const char* name = "pad";
  Unit* to;
  const Unit* from;
  Index count;   ///< of elements of the result
  Index loops;   ///< dimensions, outermost first
  Unit8 number;  ///< its bits, in the lowest bytes
  Index out[kMaxLoops] = {};
  Index in[kMaxLoops] = {};
  Index low[kMaxLoops] = {};

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < count; i += stride(c)) {
      Index rest = i, at = 0, step = 1;
      bool inside = true;
      METRONOME_ROLLED
      for (Index d = loops - 1; d >= 0; --d) {
        const Index next = quotient(rest, out[d]), place = rest - next * out[d] - low[d];
        inside = inside && place >= 0 && place < in[d];
        at += place * step;
        step *= in[d];
        rest = next;
      }
      to[i] = inside ? from[at] : Unit(number);
    }
  }
};

using PadKernels = KernelList<Pad<Unit1>, Pad<Unit2>, Pad<Unit4>, Pad<Unit8>>;

}  // namespace metronome::cuda
