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

struct IsMultiple {
  static constexpr const char* name = "is_multiple";
  bool* to;
  const long long* counter;
  long long of;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    if (first(c) == 0) *to = *counter % of == 0;
  }
};

template <class T>
struct IsFinite {
  static constexpr const char* name = "is_finite";
  bool* to;
  const T* x;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    if (first(c) == 0) *to = *x - *x == T(0);
  }
};

template <class T>
struct MeanWeight {
  static constexpr const char* name = "mean_weight";
  double* share;
  double* sum;
  const T* weight;
  const double* before;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    if (first(c) != 0) return;
    const double own = *weight, all = own + *before;
    *share = own == 0 && all == 0 ? 0 : own / all;
    *sum = all;
  }
};

/// A dimension of the tensor that stores another, outermost first, without the blocks' own.
struct RelayoutLoop {
  Index size;
  Index begin;  ///< in `places`, of its dimension
  Index limit;  ///< of its dimension; past it there are zeros
  Index step;   ///< of its dimension: the block's elements where it is cut into blocks, else 1
};

/// A tensor in another layout, element by element.
template <class Unit>
struct Relayout {
  static constexpr const char* name = "relayout";
  Unit* to;
  const Unit* from;
  const RelayoutLoop* loops;  ///< in device memory, as `places`
  const Index* places;        ///< of each index of each dimension, units into the operand
  int rank;
  Index block;  ///< the innermost loop, over the elements of a block; 1: there is none
  Index count;  ///< units of the result

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < count; i += stride(c)) {
      Index rest = quotient(i, block), place = 0;
      const Index in_block = i - rest * block;
      bool there = true;
      METRONOME_ROLLED
      for (int k = rank - 1; k >= 0; --k) {
        const RelayoutLoop& loop = loops[k];
        const Index next = quotient(rest, loop.size);
        const Index index = (rest - next * loop.size) * loop.step + (loop.step > 1 ? in_block : 0);
        there = there && index < loop.limit;
        if (there) place += places[loop.begin + index];
        rest = next;
      }
      to[i] = there ? from[place] : Unit{};
    }
  }
};

using StructuralKernels =
    KernelList<Fill<float>, Fill<double>, Fill<int>, Fill<long long>, Fill<bool>, Fill<BFloat16>,
               Fill<Float16>, Increment, IsMultiple, IsFinite<float>, IsFinite<double>,
               MeanWeight<float>, MeanWeight<double>, Relayout<Unit1>, Relayout<Unit2>,
               Relayout<Unit4>, Relayout<Unit8>>;

}  // namespace metronome::cuda
