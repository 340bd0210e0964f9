// Sums of the elements before each, along an axis.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

/// The type in which sums are made. Integers wrap around.
template <class T>
struct CumsumTotal {
  using type = unsigned long long;
};
template <>
struct CumsumTotal<float> {
  using type = double;
};
template <>
struct CumsumTotal<double> {
  using type = double;
};

/// Operand and result as [outer, count, inner], summed along the middle.
template <class T>
struct CumsumLines {
  T* to;
  const T* from;
  Index outer, count, inner;
  bool exclusive, reverse;
  Watch watch;

  /// Returns the place of step k of a line, in the order of the additions.
  METRONOME_DEVICE Index place(Index line, Index k) const {
    const Index o = quotient(line, inner);
    return (o * count + (reverse ? count - 1 - k : k)) * inner + line - o * inner;
  }
};

/// A thread has a line: for many lines, or short ones.
template <class T>
struct CumsumOfThread {
  static constexpr const char* name = "cumsum";
  CumsumLines<T> lines;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    using Total = typename CumsumTotal<T>::type;
    for (Index line = first(c); line < lines.outer * lines.inner; line += stride(c)) {
      Total total = Total(0);
      for (Index k = 0; k < lines.count; ++k) {
        const Index at = lines.place(line, k);
        const Total before = total;
        total += static_cast<Total>(lines.from[at]);
        lines.to[at] =
            watch_number(c, lines.watch, static_cast<T>(lines.exclusive ? before : total));
      }
    }
  }
};

/// A block has a line, as many elements at a time as threads. Its shared memory holds a total for
/// each warp.
template <class T>
struct CumsumOfBlock {
  static constexpr const char* name = "cumsum";
  using Total = typename CumsumTotal<T>::type;
  CumsumLines<T> lines;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const int lane = c.thread() % kWarp, warp = c.thread() / kWarp, warps = c.threads() / kWarp;
    Total* const totals = reinterpret_cast<Total*>(c.shared());
    for (Index line = c.block(); line < lines.outer * lines.inner; line += c.blocks()) {
      Total carry = Total(0);
      for (Index base = 0; base < lines.count; base += c.threads()) {
        const Index k = base + c.thread();
        const bool there = k < lines.count;
        const Index at = there ? lines.place(line, k) : 0;
        const Total sum = of_warp(c, lane, there ? static_cast<Total>(lines.from[at]) : Total(0));
        const Total left = c.shuffle(sum, lane > 0 ? lane - 1 : 0);
        if (lane == kWarp - 1) totals[warp] = sum;
        c.barrier();
        Total before = carry;
        for (int w = 0; w < warps; ++w) {
          if (w < warp) before += totals[w];
          carry += totals[w];
        }
        c.barrier();
        const Total exclusive = lane > 0 ? before + left : before;
        if (!there) continue;
        lines.to[at] = watch_number(c, lines.watch,
                                    static_cast<T>(lines.exclusive ? exclusive : before + sum));
      }
    }
  }

 private:
  /// The sum of the numbers of lanes 0 to `lane`. Hillis and Steele, "Data Parallel Algorithms",
  /// 1986.
  template <class Context>
  static METRONOME_DEVICE Total of_warp(Context& c, int lane, Total sum) {
    METRONOME_UNROLL
    for (int step = 1; step < kWarp; step *= 2) {
      const Total left = c.shuffle(sum, lane >= step ? lane - step : lane);
      if (lane >= step) sum += left;
    }
    return sum;
  }
};

template <class... Ts>
using CumsumsOf = KernelList<CumsumOfThread<Ts>..., CumsumOfBlock<Ts>...>;

using CumsumKernels = CumsumsOf<float, double, int, long long>;

}  // namespace metronome::cuda
