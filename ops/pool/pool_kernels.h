// Max pooling and its gradient, a thread for each result. (Averages are linear maps: ops/bands.)
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/math.h"

namespace metronome::cuda {

/// Windows along one dimension; one that is not there is one element and one window.
struct PoolWindows {
  Index in = 1, out = 1;
  Index kernel = 1, stride = 1, padding = 0, dilation = 1;

  METRONOME_DEVICE Index place(Index o, Index tap) const {
    return o * stride - padding + tap * dilation;
  }
  METRONOME_DEVICE bool inside(Index i) const { return i >= 0 && i < in; }
  /// The window of which element `tap` lies at i; -1 if there is none.
  METRONOME_DEVICE Index window(Index i, Index tap) const {
    const Index from = i + padding - tap * dilation;
    if (from < 0) return -1;
    const Index o = quotient(from, stride);
    return o * stride == from && o < out ? o : -1;
  }
};

template <class T>
struct MaxPool {
  static constexpr const char* name = "max_pool";
  const T* x;
  T* y;
  int* winner;  ///< may be null
  PoolWindows depth, height, width;
  Index count;  ///< of results
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index r = first(c); r < count; r += stride(c)) {
      const Index row = quotient(r, width.out), w = r - row * width.out;
      const Index slab = quotient(row, height.out), h = row - slab * height.out;
      const Index plane = quotient(slab, depth.out), d = slab - plane * depth.out;
      const T* const from = x + plane * depth.in * height.in * width.in;
      T best = Range<T>::lowest();
      Index won = -1;
      for (Index i = 0; i < depth.kernel; ++i) {
        const Index at_d = depth.place(d, i);
        for (Index j = 0; j < height.kernel && depth.inside(at_d); ++j) {
          const Index at_h = height.place(h, j);
          for (Index k = 0; k < width.kernel && height.inside(at_h); ++k) {
            const Index at_w = width.place(w, k);
            if (!width.inside(at_w)) continue;
            const T v = from[(at_d * height.in + at_h) * width.in + at_w];
            if (v > best || v != v || won < 0) {
              best = v;
              won = (i * height.kernel + j) * width.kernel + k;
            }
          }
        }
      }
      y[r] = watched(c, watch, best);
      if (winner != nullptr) winner[r] = int(won);
    }
  }
};

template <class T>
struct MaxPoolGrad {
  static constexpr const char* name = "max_pool_grad";
  const T* g;
  const int* winner;
  T* dx;
  PoolWindows depth, height, width;
  Index count;  ///< of results
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index r = first(c); r < count; r += stride(c)) {
      const Index row = quotient(r, width.in), w = r - row * width.in;
      const Index slab = quotient(row, height.in), h = row - slab * height.in;
      const Index plane = quotient(slab, depth.in), d = slab - plane * depth.in;
      T sum = T(0);
      for (Index i = depth.kernel - 1; i >= 0; --i) {
        const Index of_d = depth.window(d, i);
        for (Index j = height.kernel - 1; j >= 0 && of_d >= 0; --j) {
          const Index of_h = height.window(h, j);
          for (Index k = width.kernel - 1; k >= 0 && of_h >= 0; --k) {
            const Index of_w = width.window(w, k);
            if (of_w < 0) continue;
            const Index o = ((plane * depth.out + of_d) * height.out + of_h) * width.out + of_w;
            if (winner[o] == (i * height.kernel + j) * width.kernel + k) sum += g[o];
          }
        }
      }
      dx[r] = watched(c, watch, sum);
    }
  }
};

using PoolKernels =
    KernelList<MaxPool<float>, MaxPool<double>, MaxPoolGrad<float>, MaxPoolGrad<double>>;

}  // namespace metronome::cuda
