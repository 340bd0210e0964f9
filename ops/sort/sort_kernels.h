// Elements of an axis in order, for lines of any length: runs of up to 512 elements, whose order
// blocks count in shared memory, then merges of two neighbouring runs each. Kernels sort indices;
// values are read where they stand.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"

namespace metronome::cuda {

/// Operand [outer, count, inner], sorted along the middle; a line is one of outer * inner.
template <class T>
struct SortLines {
  const T* x;
  Index lines, count, inner;
  bool descending;

  METRONOME_DEVICE Index origin(Index line, Index size) const {
    const Index o = quotient(line, inner);
    return o * size * inner + line - o * inner;
  }
  METRONOME_DEVICE T value(Index line, Index i) const { return x[origin(line, count) + i * inner]; }
  /// True where element i, of value a, stands before element j, of value b. Only the same element
  /// has the same place.
  METRONOME_DEVICE bool before(T a, Index i, T b, Index j) const {
    const bool a_nan = a != a, b_nan = b != b;
    if (a == b || (a_nan && b_nan)) return i < j;
    const bool below = b_nan || (!a_nan && a < b);
    return below != descending;
  }
};

/// The destination of sorted runs: indices into `order` [lines, count], or, of the last pass, the
/// results [outer, kept, inner].
template <class T>
struct SortTarget {
  Index* order;  ///< null in the last pass
  T* values;
  Index* indices;
  Index kept;

  METRONOME_DEVICE void store(const SortLines<T>& lines, Index line, Index place, Index i,
                              T value) const {
    if (order != nullptr) {
      order[line * lines.count + place] = i;
    } else if (place < kept) {
      const Index at = lines.origin(line, kept) + place * lines.inner;
      values[at] = value;
      indices[at] = i;
    }
  }
};

/// Runs of `kRun` elements: a block has a run, and each element counts those before it.
template <class T>
struct SortRuns {
  static constexpr const char* name = "sort_runs";
  static constexpr int kRun = 512;
  SortLines<T> lines;
  SortTarget<T> target;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    T* const run = reinterpret_cast<T*>(c.shared());
    const Index runs = quotient(lines.count + kRun - 1, kRun);
    for (Index unit = c.block(); unit < lines.lines * runs; unit += c.blocks()) {
      const Index line = quotient(unit, runs), begin = (unit - line * runs) * kRun;
      const int size = static_cast<int>(lines.count - begin < kRun ? lines.count - begin : kRun);
      for (int i = c.thread(); i < size; i += c.threads()) run[i] = lines.value(line, begin + i);
      c.barrier();
      for (int i = c.thread(); i < size; i += c.threads()) {
        const T own = run[i];
        int place = 0;
        for (int j = 0; j < size; ++j) place += lines.before(run[j], j, own, i) ? 1 : 0;
        target.store(lines, line, begin + place, begin + i, own);
      }
      c.barrier();
    }
  }
};

/// Merges runs of `run` elements two by two: an element's place is its own in its run and the
/// number of elements of the other run that stand before it.
template <class T>
struct SortMerge {
  static constexpr const char* name = "sort_merge";
  SortLines<T> lines;
  SortTarget<T> target;
  const Index* order;  ///< [lines, count], sorted run by run
  Index run;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index e = first(c); e < lines.lines * lines.count; e += stride(c)) {
      const Index line = quotient(e, lines.count), place = e - line * lines.count;
      const Index number = quotient(place, run), other = number ^ 1;
      const Index* const of_line = order + line * lines.count;
      const Index i = of_line[place];
      const T value = lines.value(line, i);
      Index low = other * run, high = low + run;
      if (low > lines.count) low = lines.count;
      if (high > lines.count) high = lines.count;
      const Index begin = low;
      while (low < high) {
        const Index middle = low + (high - low) / 2, j = of_line[middle];
        if (lines.before(lines.value(line, j), j, value, i)) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      const Index both = (number - number % 2) * run;
      target.store(lines, line, both + (place - number * run) + (low - begin), i, value);
    }
  }
};

template <class... Ts>
using SortsOf = KernelList<SortRuns<Ts>..., SortMerge<Ts>...>;

using SortKernels = SortsOf<float, double, int, long long, BFloat16, Float16>;

}  // namespace metronome::cuda
