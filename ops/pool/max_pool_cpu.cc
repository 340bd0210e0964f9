// Three pairs of kernels share out the shapes, and the first that fits is taken:
//
//   Halves...         windows of 2 by 2 side by side, in rows of 8 (backward 4) or more: four loads
//                     for each window, without a branch
//   PlaneMaxPool...   short rows, by a table of a plane (max_pool_planes.h)
//   MaxPool...        all others: a row of results at a time, kernel element by kernel element
//
//   row of x      x0 x1 x2 x3 x4 x5     kernel of 3, stride 1
//   tap 1            x1 x2 x3 x4        is compared with the best of four windows at once
//
// The backward kernels gather: each element of dx adds the gradients of the windows that it won, so
// no two threads write one element.
#include "ops/pool/max_pool.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "ops/cpu/launch.h"
#include "ops/cpu/norms.h"
#include "ops/cpu/parallel.h"
#include "ops/pool/max_pool_planes.h"
#include "ops/pool/window_line.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {
namespace {

/// f(stride) with the stride as a constant where it is a usual one: such loops are vectorised.
template <class F>
void with_stride(std::int64_t stride, const F& f) {
  if (stride == 1) return f(std::integral_constant<std::int64_t, 1>());
  if (stride == 2) return f(std::integral_constant<std::int64_t, 2>());
  f(stride);
}

template <class T>
struct MaxPoolForward {
  Along3 along;
  const T* x;
  T* y;
  std::int32_t* winner;  ///< or null

  /// Row `row` of the result: all its windows take one element of each at a time.
  void operator()(std::int64_t row) const {
    const auto& [depth, height, width] = along;
    const std::int64_t h = row % height.out, d = row / height.out % depth.out;
    const std::int64_t plane = row / height.out / depth.out;
    const T* const from = x + plane * depth.in * height.in * width.in;
    T* const best = y + row * width.out;
    std::int32_t* const won = winner == nullptr ? nullptr : winner + row * width.out;
    std::fill_n(best, width.out, -std::numeric_limits<T>::infinity());
    if (won) std::fill_n(won, width.out, -1);
    for (std::int64_t i = 0; i < depth.kernel; ++i) {
      const std::int64_t at_d = depth.place(d, i);
      if (at_d < 0 || at_d >= depth.in) continue;
      for (std::int64_t j = 0; j < height.kernel; ++j) {
        const std::int64_t at_h = height.place(h, j);
        if (at_h < 0 || at_h >= height.in) continue;
        for (std::int64_t k = 0; k < width.kernel; ++k) {
          const T* const first = from + (at_d * height.in + at_h) * width.in + width.place(0, k);
          const auto tap = static_cast<std::int32_t>((i * height.kernel + j) * width.kernel + k);
          with_stride(width.stride, [&](auto stride) {
            won ? take<true>(first, tap, stride, width.first(k), width.last(k), best, won)
                : take<false>(first, tap, stride, width.first(k), width.last(k), best, won);
          });
        }
      }
    }
  }

  template <bool kKeeps, class Stride>
  static void take(const T* from, std::int32_t tap, Stride stride, std::int64_t begin,
                   std::int64_t end, T* __restrict__ best, std::int32_t* __restrict__ won) {
    for (std::int64_t o = begin; o < end; ++o) {
      const T v = from[o * stride];
      bool wins = (v > best[o]) | (v != v);
      if constexpr (kKeeps) {
        wins = wins | (won[o] < 0);
        won[o] = wins ? tap : won[o];
      }
      best[o] = wins ? v : best[o];
    }
  }
};

template <class T>
struct MaxPoolBackward {
  Along3 along;
  const T* g;
  const std::int32_t* winner;
  T* dx;

  /// Row `row` of the result: what each element of the windows that reach it adds.
  void operator()(std::int64_t row) const {
    const auto& [depth, height, width] = along;
    const std::int64_t h = row % height.in, d = row / height.in % depth.in;
    const std::int64_t plane = row / height.in / depth.in;
    T* const to = dx + row * width.in;
    std::fill_n(to, width.in, T(0));
    for (std::int64_t i = depth.kernel - 1; i >= 0; --i) {
      const std::int64_t of_d = depth.window(d, i);
      if (of_d < 0) continue;
      for (std::int64_t j = height.kernel - 1; j >= 0; --j) {
        const std::int64_t of_h = height.window(h, j);
        if (of_h < 0) continue;
        const std::int64_t line = ((plane * depth.out + of_d) * height.out + of_h) * width.out;
        for (std::int64_t k = width.kernel - 1; k >= 0; --k) {
          const auto tap = static_cast<std::int32_t>((i * height.kernel + j) * width.kernel + k);
          with_stride(width.stride, [&](auto stride) {
            add(g + line, winner + line, tap, stride, width.first(k), width.last(k),
                to + width.place(0, k));
          });
        }
      }
    }
  }

  template <class Stride>
  static void add(const T* __restrict__ grad, const std::int32_t* __restrict__ won,
                  std::int32_t tap, Stride stride, std::int64_t first, std::int64_t last,
                  T* __restrict__ to) {
    for (std::int64_t o = first; o < last; ++o) to[o * stride] += won[o] == tap ? grad[o] : T(0);
  }
};

/// True for windows of 2 by 2 that lie side by side, at least `least` in a row: enough for loops
/// along it to be faster than a table of the plane.
bool halves(const Along3& along, std::int64_t least) {
  const auto halved = [](const WindowLine& a) {
    return a.kernel == 2 && a.stride == 2 && a.padding == 0 && a.dilation == 1 && a.out == a.in / 2;
  };
  const auto& [depth, height, width] = along;
  const bool flat = depth.kernel == 1 && depth.stride == 1 && depth.padding == 0;
  return flat && halved(height) && halved(width) && width.out >= least;
}

/// Such windows, all four elements of one at once.
template <class T>
struct HalvesForward {
  WindowLine height, width;
  const T* x;
  T* y;
  std::int32_t* winner;  ///< or null

  void operator()(std::int64_t row) const {
    const std::int64_t plane = row / height.out, h = row % height.out;
    const T* const top = x + (plane * height.in + 2 * h) * width.in;
    const std::int64_t at = row * width.out;
    winner != nullptr ? take<true>(top, top + width.in, width.out, y + at, winner + at)
                      : take<false>(top, top + width.in, width.out, y + at, nullptr);
  }

  template <bool kKeeps>
  static void take(const T* __restrict__ top, const T* __restrict__ low, std::int64_t count,
                   T* __restrict__ to, std::int32_t* __restrict__ won) {
    for (std::int64_t o = 0; o < count; ++o) {
      T best = top[2 * o];
      std::int32_t tap = 0;
      const auto next = [&](T v, std::int32_t its) {
        const bool wins = (v > best) | (v != v);
        best = wins ? v : best;
        tap = wins ? its : tap;
      };
      next(top[2 * o + 1], 1);
      next(low[2 * o], 2);
      next(low[2 * o + 1], 3);
      to[o] = best;
      if constexpr (kKeeps) won[o] = tap;
    }
  }
};

template <class T>
struct HalvesBackward {
  WindowLine height, width;
  const T* g;
  const std::int32_t* winner;
  T* dx;

  void operator()(std::int64_t row) const {
    const std::int64_t plane = row / height.in, h = row % height.in;
    T* const to = dx + row * width.in;
    if (h / 2 == height.out) {
      std::fill_n(to, width.in, T(0));
      return;
    }
    const std::int64_t at = (plane * height.out + h / 2) * width.out;
    spread(g + at, winner + at, static_cast<std::int32_t>(h % 2 * 2), width.out, to);
    if (width.in % 2 == 1) to[width.in - 1] = T(0);
  }

  static void spread(const T* __restrict__ grad, const std::int32_t* __restrict__ won,
                     std::int32_t tap, std::int64_t count, T* __restrict__ to) {
    for (std::int64_t o = 0; o < count; ++o) {
      to[2 * o] = if_won(won[o] == tap, grad[o]);
      to[2 * o + 1] = if_won(won[o] == tap + 1, grad[o]);
    }
  }

  /// Without a branch, which winners in no order would mislead.
  static T if_won(bool won, T grad) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
    return std::bit_cast<T>(std::bit_cast<Bits>(grad) & -static_cast<Bits>(won));
  }
};

/// Runs the kernel for each row, or plane, of `size` elements of the result.
template <class Kernel>
CpuKernel over_parts(const Kernel& kernel, const Type& result, std::int64_t size, int threads) {
  const std::int64_t n = result.numel();
  if (n == 0) return CpuKernel([] {});
  return CpuKernel([kernel, parts = n / size, grain = 4096 / size + 1, threads] {
    parallel_for(threads, parts, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) kernel(part);
    });
  });
}

template <class T>
CpuKernel bind_forward(const MaxPool& op, const CpuLaunch& l) {
  const Along3 along = windows_along<WindowLine>(op.windows, l.inputs[0].shape, l.outputs[0].shape);
  if (halves(along, 8)) {
    return over_parts(
        HalvesForward<T>{along[1], along[2], l.in<T>(0), l.out<T>(0), l.out<std::int32_t>(1)},
        l.outputs[0], along[2].out, l.choice.threads);
  }
  if (by_planes(along)) {
    const auto table = std::make_shared<const PoolTable>(along, false);
    return over_parts(
        PlaneMaxPoolForward<T>{table, l.in<T>(0), l.out<T>(0), l.out<std::int32_t>(1)},
        l.outputs[0], table->windows, l.choice.threads);
  }
  const MaxPoolForward<T> forward{along, l.in<T>(0), l.out<T>(0), l.out<std::int32_t>(1)};
  return over_parts(forward, l.outputs[0], l.outputs[0].shape.back(), l.choice.threads);
}

template <class T>
CpuKernel bind_backward(const MaxPoolGrad& op, const CpuLaunch& l) {
  const Along3 along = windows_along<WindowLine>(op.windows, l.outputs[0].shape, l.inputs[0].shape);
  if (halves(along, 4)) {
    return over_parts(
        HalvesBackward<T>{along[1], along[2], l.in<T>(0), l.in<std::int32_t>(1), l.out<T>(0)},
        l.outputs[0], along[2].in, l.choice.threads);
  }
  if (by_planes(along)) {
    const auto table = std::make_shared<const PoolTable>(along, true);
    return over_parts(
        PlaneMaxPoolBackward<T>{table, l.in<T>(0), l.in<std::int32_t>(1), l.out<T>(0)},
        l.outputs[0], table->points, l.choice.threads);
  }
  const MaxPoolBackward<T> backward{along, l.in<T>(0), l.in<std::int32_t>(1), l.out<T>(0)};
  return over_parts(backward, l.outputs[0], l.outputs[0].shape.back(), l.choice.threads);
}

}  // namespace

std::vector<Candidate> candidates(const MaxPool&, const CpuQuery& q) {
  return {{.threads = threads_for_elements(q.inputs[0].numel(), q.threads)}};
}

CpuKernel bind(const MaxPool& op, const CpuLaunch& l) {
  return with_floating<MaxPool>(l.inputs[0].element,
                                [&](auto x) { return bind_forward<decltype(x)>(op, l); });
}

std::vector<Candidate> candidates(const MaxPoolGrad&, const CpuQuery& q) {
  return {{.threads = threads_for_elements(q.outputs[0].numel(), q.threads)}};
}

CpuKernel bind(const MaxPoolGrad& op, const CpuLaunch& l) {
  return with_floating<MaxPool>(l.inputs[0].element,
                                [&](auto x) { return bind_backward<decltype(x)>(op, l); });
}

}  // namespace metronome::METRONOME_ISA
