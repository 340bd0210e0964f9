// Sums of rows whose index is equal, and rows into a table.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

/// Whether place i begins a run of equal neighbours.
template <class I>
METRONOME_DEVICE bool begins_run(const I* index, Index i) {
  return i == 0 || index[i - 1] != index[i];
}

/// A thread for each element of the result: it adds the elements of a run in order, some loads at a
/// time. I: of the index.
template <class T, class I>
struct RunSum {
  static constexpr const char* name = "run_sum";
  T* to;
  const T* from;
  const I* index;
  const Index* position;
  Index n, width;
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index e = first(c); e < n * width; e += stride(c)) {
      const Index i = quotient(e, width), column = e - i * width;
      T sum = T(0);
      if (begins_run(index, i)) sum = sum_of(i, column);
      to[e] = watch_number(c, watch, sum);
    }
  }

 private:
  METRONOME_DEVICE T sum_of(Index i, Index column) const {
    const I row = index[i];
    T sum = T(0);
    bool more = true;
    METRONOME_ROLLED
    for (Index j = i; more; j += kTogether) {
      T x[kTogether];
      METRONOME_UNROLL
      for (int k = 0; k < kTogether; ++k) {
        more = more && j + k < n && index[j + k] == row;
        const Index at = more ? position[j + k] : -1;
        // -0 changes no sum.
        x[k] = at >= 0 && at < n ? from[at * width + column] : T(-0.0);
      }
      METRONOME_UNROLL
      for (int k = 0; k < kTogether; ++k) sum += x[k];
    }
    return sum;
  }
};

template <class Unit, class I>
struct IndexCopy {
  static constexpr const char* name = "index_copy";
  Unit* to;
  const I* index;
  const Unit* source;
  Index rows;   ///< of the table
  Index width;  ///< units of a row
  Index count;  ///< units of the source
  Lookups lookups;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index e = first(c); e < count; e += stride(c)) {
      const Index i = quotient(e, width), row = index[i];
      if (row < 0 || row >= rows) {
        report(c, lookups, row);
      } else if (begins_run(index, i)) {
        to[row * width + e - i * width] = source[e];
      }
    }
  }
};

using RowUpdatesKernels =
    KernelList<RunSum<float, int>, RunSum<float, long long>, RunSum<double, int>,
               RunSum<double, long long>, IndexCopy<Unit1, int>, IndexCopy<Unit1, long long>,
               IndexCopy<Unit2, int>, IndexCopy<Unit2, long long>, IndexCopy<Unit4, int>,
               IndexCopy<Unit4, long long>, IndexCopy<Unit8, int>, IndexCopy<Unit8, long long>,
               IndexCopy<Unit16, int>, IndexCopy<Unit16, long long>>;

}  // namespace metronome::cuda
