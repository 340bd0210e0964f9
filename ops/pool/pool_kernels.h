// Max pooling and its gradient, a thread for each result. Windows of 2 by 2 side by side, the usual
// ones, have kernels of their own, for channels last too. (Averages are linear maps: ops/bands.)
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/math.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

/// Windows along one dimension; one that is not there is one element and one window.
struct PoolWindows {
  Index in = 1, out = 1;
  Index kernel = 1, stride = 1, padding = 0, dilation = 1;

  METRONOME_DEVICE Index place(Index o, Index tap) const {
    return o * stride - padding + tap * dilation;
  }
  METRONOME_DEVICE bool inside(Index i) const { return i >= 0 && i < in; }
  /// use(window, tap) for each window that element i lies in, in their order; `tap` lies at i.
  template <class Use>
  METRONOME_DEVICE void each_window(Index i, const Use& use) const {
    const Index at = i + padding, reach = (kernel - 1) * dilation;
    Index o = at <= reach ? 0 : quotient(at - reach + stride - 1, stride);
    for (; o < out && o * stride <= at; ++o) {
      const Index distance = at - o * stride;
      const Index tap = dilation == 1 ? distance : quotient(distance, dilation);
      if (tap * dilation == distance) use(o, tap);
    }
  }
};

template <class T>
struct MaxPool {
  static constexpr const char* name = "max_pool";
  const T* x;
  T* y;
  int* winner;  ///< may be null
  PoolWindows depth, height, width;
  Index inner;  ///< channels that are stored last; else 1
  Index count;  ///< of results
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index r = first(c); r < count; r += stride(c)) {
      const PlacedIn at(r, inner, depth.out, height.out, width.out);
      const T* const from = x + at.plane * depth.in * height.in * width.in * inner + at.channel;
      T best = Range<T>::lowest();
      Index won = -1;
      for (Index i = 0; i < depth.kernel; ++i) {
        const Index at_d = depth.place(at.d, i);
        for (Index j = 0; j < height.kernel && depth.inside(at_d); ++j) {
          const Index at_h = height.place(at.h, j);
          for (Index k = 0; k < width.kernel && height.inside(at_h); ++k) {
            const Index at_w = width.place(at.w, k);
            if (!width.inside(at_w)) continue;
            const T v = from[((at_d * height.in + at_h) * width.in + at_w) * inner];
            if (v > best || v != v || won < 0) {
              best = v;
              won = (i * height.kernel + j) * width.kernel + k;
            }
          }
        }
      }
      y[r] = watch_number(c, watch, best);
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
  Index inner;  ///< channels that are stored last; else 1
  Index count;  ///< of results
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index r = first(c); r < count; r += stride(c)) {
      const PlacedIn at(r, inner, depth.in, height.in, width.in);
      T sum = T(0);
      depth.each_window(at.d, [&](Index of_d, Index i) {
        height.each_window(at.h, [&](Index of_h, Index j) {
          const Index line = ((at.plane * depth.out + of_d) * height.out + of_h) * width.out;
          const Index taps = (i * height.kernel + j) * width.kernel;
          width.each_window(at.w, [&](Index of_w, Index k) {
            const Index window = (line + of_w) * inner + at.channel;
            if (winner[window] == taps + k) sum += g[window];
          });
        });
      });
      dx[r] = watch_number(c, watch, sum);
    }
  }
};

/// The largest element of a window of 2 by 2, and which it is: the first of equal ones, the last
/// NaN.
template <class T>
METRONOME_DEVICE T largest_of(const T (&taps)[4], int& won) {
  T best = taps[0];
  won = 0;
  METRONOME_UNROLL
  for (int tap = 1; tap < 4; ++tap) {
    const bool wins = taps[tap] > best || taps[tap] != taps[tap];
    best = wins ? taps[tap] : best;
    won = wins ? tap : won;
  }
  return best;
}

/// Windows of 2 by 2 that lie side by side and fill their planes. A thread takes neighbours in a
/// row: their elements are two packs of 16 bytes, one in each of the rows that they lie in.
template <class T>
struct Halves {
  static constexpr int kWindows = 8 / sizeof(T);  ///< of a thread
  using Elements = Pack<T, 2 * kWindows>;
  using Results = Pack<T, kWindows>;
  using Winners = Pack<int, kWindows>;
  Index packs;  ///< of a row
  Index count;  ///< of packs of windows

  /// The upper pack of elements of pack `i` of windows; the lower one lies `packs` further.
  METRONOME_DEVICE Index upper(Index i) const { return i + quotient(i, packs) * packs; }
};

template <class T>
struct HalvesMaxPool {
  static constexpr const char* name = "max_pool";
  using Of = Halves<T>;
  const typename Of::Elements* x;
  typename Of::Results* y;
  typename Of::Winners* winner;  ///< may be null
  Of halves;
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < halves.count; i += stride(c)) {
      const typename Of::Elements* const from = x + halves.upper(i);
      const typename Of::Elements up = from[0], low = from[halves.packs];
      typename Of::Results best;
      typename Of::Winners won;
      METRONOME_UNROLL
      for (int k = 0; k < Of::kWindows; ++k) {
        const T taps[4] = {up.v[2 * k], up.v[2 * k + 1], low.v[2 * k], low.v[2 * k + 1]};
        best.v[k] = largest_of(taps, won.v[k]);
        watch_number(c, watch, best.v[k]);
      }
      y[i] = best;
      if (winner != nullptr) winner[i] = won;
    }
  }
};

template <class T>
struct HalvesMaxPoolGrad {
  static constexpr const char* name = "max_pool_grad";
  using Of = Halves<T>;
  const typename Of::Results* g;
  const typename Of::Winners* winner;
  typename Of::Elements* dx;
  Of halves;
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < halves.count; i += stride(c)) {
      const typename Of::Results v = g[i];
      const typename Of::Winners won = winner[i];
      METRONOME_UNROLL
      for (int k = 0; k < Of::kWindows; ++k) {
        watch_number(c, watch, won.v[k] >= 0 && won.v[k] < 4 ? v.v[k] : T(0));
      }
      typename Of::Elements* const to = dx + halves.upper(i);
      to[0] = row(v, won, 0);
      to[halves.packs] = row(v, won, 2);
    }
  }

 private:
  /// A row of the windows' elements, the first of which is `tap` of its kernel.
  METRONOME_DEVICE typename Of::Elements row(const typename Of::Results& v,
                                             const typename Of::Winners& won, int tap) const {
    typename Of::Elements result;
    METRONOME_UNROLL
    for (int k = 0; k < 2 * Of::kWindows; ++k) {
      result.v[k] = won.v[k / 2] == tap + k % 2 ? v.v[k / 2] : T(0);
    }
    return result;
  }
};

/// Windows of 2 by 2 that lie side by side and fill their planes, channels last. A thread takes
/// neighbouring channels of one window: their elements are four packs of 16 bytes, in two rows.
template <class T>
struct QuartersLast {
  static constexpr int kChannels = 16 / sizeof(T);  ///< of a thread
  using Elements = Pack<T, kChannels>;
  using Winners = Pack<int, kChannels>;
  Index packs;  ///< of a place
  Index line;   ///< packs of a row of windows
  Index count;  ///< of packs of windows

  /// The first of the four packs of pack `i` of windows; its neighbour lies `packs` further, and
  /// the row below twice a `line`.
  METRONOME_DEVICE Index first_pack(Index i) const {
    const Index row = quotient(i, line), at = i - row * line;
    const Index window = quotient(at, packs);
    return 4 * row * line + 2 * window * packs + (at - window * packs);
  }
};

template <class T>
struct QuartersLastMaxPool {
  static constexpr const char* name = "max_pool";
  using Of = QuartersLast<T>;
  const typename Of::Elements* x;
  typename Of::Elements* y;
  typename Of::Winners* winner;  ///< may be null
  Of quarters;
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < quarters.count; i += stride(c)) {
      const typename Of::Elements* const from = x + quarters.first_pack(i);
      const typename Of::Elements* const below = from + 2 * quarters.line;
      const typename Of::Elements taps[4] = {from[0], from[quarters.packs], below[0],
                                             below[quarters.packs]};
      typename Of::Elements best;
      typename Of::Winners won;
      METRONOME_UNROLL
      for (int k = 0; k < Of::kChannels; ++k) {
        const T of_channel[4] = {taps[0].v[k], taps[1].v[k], taps[2].v[k], taps[3].v[k]};
        best.v[k] = largest_of(of_channel, won.v[k]);
        watch_number(c, watch, best.v[k]);
      }
      y[i] = best;
      if (winner != nullptr) winner[i] = won;
    }
  }
};

template <class T>
struct QuartersLastMaxPoolGrad {
  static constexpr const char* name = "max_pool_grad";
  using Of = QuartersLast<T>;
  const typename Of::Elements* g;
  const typename Of::Winners* winner;
  typename Of::Elements* dx;
  Of quarters;
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < quarters.count; i += stride(c)) {
      const typename Of::Elements v = g[i];
      const typename Of::Winners won = winner[i];
      METRONOME_UNROLL
      for (int k = 0; k < Of::kChannels; ++k) {
        watch_number(c, watch, won.v[k] >= 0 && won.v[k] < 4 ? v.v[k] : T(0));
      }
      typename Of::Elements* const to = dx + quarters.first_pack(i);
      METRONOME_UNROLL
      for (int tap = 0; tap < 4; ++tap) {
        typename Of::Elements of_tap;
        METRONOME_UNROLL
        for (int k = 0; k < Of::kChannels; ++k) of_tap.v[k] = won.v[k] == tap ? v.v[k] : T(0);
        to[tap / 2 * 2 * quarters.line + tap % 2 * quarters.packs] = of_tap;
      }
    }
  }
};

using PoolKernels =
    KernelList<MaxPool<float>, MaxPool<double>, MaxPoolGrad<float>, MaxPoolGrad<double>,
               HalvesMaxPool<float>, HalvesMaxPool<double>, HalvesMaxPoolGrad<float>,
               HalvesMaxPoolGrad<double>, QuartersLastMaxPool<float>, QuartersLastMaxPool<double>,
               QuartersLastMaxPoolGrad<float>, QuartersLastMaxPoolGrad<double>>;

}  // namespace metronome::cuda
