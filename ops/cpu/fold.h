// Many elements folded into one: what a reduction does to a run and to columns. Both fold in a
// tree, so a long sum keeps its digits:
//
//   run      blocks of 4,096 elements -> f64 (i64 for integers)
//              a block: four vectors side by side, joined every 16 turns; lanes in pairs at the end
//   column   16 rows -> 256 rows -> 4,096 rows -> the total; four vectors of columns at once
//
// A block of f32 whose sum leaves the range is summed again in f64. Lanes beyond the last element
// hold what changes nothing: 0, or an infinity for maxima and minima. The norm of f32 is folded in
// f64 throughout.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/cpu/vector.h"
#include "ops/expr/reduction.h"

namespace metronome::METRONOME_ISA {

/// The folding of one kind. Runs are folded in vectors, block by block; blocks in f64 (i64 for
/// integers), so that long sums of f32 keep their accuracy.
template <ReduceKind kKind, class T>
struct Fold {
  using V = Vector<T>;
  using Total = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
  using Part = T;  ///< of columns
  static constexpr bool kMax = kKind == ReduceKind::max;
  static constexpr bool kMin = kKind == ReduceKind::min;
  static constexpr std::int64_t kBlock = 4096;
  // Vectors that are added before their sum is added to others', and so on: long sums keep their
  // digits.
  static constexpr std::int64_t kRows = 16;

  template <class S>
  static constexpr S start() {
    using Limits = std::numeric_limits<S>;
    if constexpr (kMax) return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    if constexpr (kMin) return Limits::has_infinity ? Limits::infinity() : Limits::max();
    return S(0);
  }

  /// Two folded parts.
  static V join(const V& a, const V& b) {
    if constexpr (kMax) {
      return maximum(a, b);
    } else if constexpr (kMin) {
      return minimum(a, b);
    } else {
      return a + b;
    }
  }
  template <class S>
  static S join_one(S a, S b) {
    if constexpr (kMax) {
      return (a > b) | (a != a) ? a : b;  // NaN stays; without a branch
    } else if constexpr (kMin) {
      return (a < b) | (a != a) ? a : b;
    } else if constexpr (std::is_integral_v<S>) {
      return static_cast<S>(static_cast<std::make_unsigned_t<S>>(a) +
                            static_cast<std::make_unsigned_t<S>>(b));  // wraps around
    } else {
      return a + b;
    }
  }
  /// Returns what an element adds: its square in a sum of squares, else the element.
  static V count(const V& x) {
    if constexpr (kKind == ReduceKind::sum_squares) {
      return x * x;
    } else {
      return x;
    }
  }
  /// Returns what one element adds, as `count` does.
  static Part part_of(T x) {
    if constexpr (kKind == ReduceKind::sum_squares) return static_cast<T>(x * x);
    return x;
  }
  /// `n` elements, fewer than a vector; the other lanes change nothing.
  static V part(const T* p, std::int64_t n) {
    const V x = count(load(p, n));
    if constexpr (kMax || kMin) {
      return first(n, x, V(start<T>()));
    } else {
      return x;
    }
  }

  static T lanes(const V& x) {
    alignas(64) T lane[kLanes<T>];
    store(lane, x);
    for (std::int64_t width = kLanes<T> / 2; width > 0; width /= 2) {
      for (std::int64_t i = 0; i < width; ++i) lane[i] = join_one(lane[i], lane[i + width]);
    }
    return lane[0];
  }

  static T block(const T* p, std::int64_t n) {
    constexpr std::int64_t kStep = kLanes<T>;
    V sum(start<T>());
    while (n >= 4 * kStep) {
      V a(start<T>()), b = a, c = a, d = a;
      const T* const end = p + std::min(n / (4 * kStep), kRows) * (4 * kStep);
      n -= end - p;
      for (; p != end; p += 4 * kStep) {
        a = join(a, count(load(p)));
        b = join(b, count(load(p + kStep)));
        c = join(c, count(load(p + 2 * kStep)));
        d = join(d, count(load(p + 3 * kStep)));
      }
      sum = join(sum, join(join(a, b), join(c, d)));
    }
    V a = sum;
    for (; n >= kStep; n -= kStep, p += kStep) a = join(a, count(load(p)));
    if (n > 0) a = join(a, part(p, n));
    return lanes(a);
  }

  /// Sums of floats that leave T's range on the way, though all of them together may not, are made
  /// again in f64.
  static constexpr bool kWidens = std::is_same_v<T, float> && !kMax && !kMin;

  /// Reduces n elements, `step` apart, in f64.
  static Total again(const T* p, std::int64_t n, std::int64_t step) {
    Total total = start<Total>();
    for (std::int64_t i = 0; i < n; ++i) {
      const Total x = static_cast<Total>(p[i * step]);
      total = join_one(total, kKind == ReduceKind::sum_squares ? x * x : x);
    }
    return total;
  }

  /// A run of n elements.
  static Total run(const T* p, std::int64_t n) {
    if (n <= kBlock) return whole_block(p, n);
    Total total = start<Total>();
    for (std::int64_t i = 0; i < n; i += kBlock) {
      total = join_one(total, whole_block(p + i, std::min(kBlock, n - i)));
    }
    return total;
  }

  /// Columns of a strip, at most kStrip of them, joined to what `total` holds: `rows` rows that lie
  /// `step` elements apart.
  static constexpr std::int64_t kStripVectors = 4;
  static constexpr std::int64_t kStrip = kStripVectors * kLanes<T>;
  static void columns(T* total, const T* p, std::int64_t rows, std::int64_t step,
                      std::int64_t width) {
    if (width == kStrip) return whole_strip(total, p, rows, step);
    for (; width >= kLanes<T>; width -= kLanes<T>, p += kLanes<T>, total += kLanes<T>) {
      one_vector(total, p, rows, step, kLanes<T>);
    }
    if (width > 0) one_vector(total, p, rows, step, width);
  }

 private:
  static Total whole_block(const T* p, std::int64_t n) {
    const T sum = block(p, n);
    if constexpr (kWidens) {
      if (!std::isfinite(sum)) return again(p, n, 1);
    }
    return static_cast<Total>(sum);
  }

  /// N neighbouring vectors of at most kRows^levels rows, read by `at`.
  template <int N, int kLevels, class At>
  static std::array<V, N> rows_of(const T* p, std::int64_t rows, std::int64_t step, const At& at) {
    std::array<V, N> sum;
    sum.fill(V(start<T>()));
    if constexpr (kLevels == 1) {
      for (std::int64_t r = 0; r < rows; ++r) {
        for (int k = 0; k < N; ++k) {
          sum[k] = join(sum[k], count(at(p + r * step + k * kLanes<T>)));
        }
      }
    } else {
      constexpr std::int64_t kPart = kLevels == 2 ? kRows : kRows * kRows;
      for (std::int64_t begin = 0; begin < rows; begin += kPart) {
        const auto part =
            rows_of<N, kLevels - 1>(p + begin * step, std::min(kPart, rows - begin), step, at);
        for (int k = 0; k < N; ++k) sum[k] = join(sum[k], part[k]);
      }
    }
    return sum;
  }

  template <int N, class At, class Put>
  static void add_rows(T* total, const T* p, std::int64_t rows, std::int64_t step, const At& at,
                       const Put& put) {
    constexpr std::int64_t kPart = kRows * kRows * kRows;
    for (std::int64_t begin = 0; begin < rows; begin += kPart) {
      const T* const from = p + begin * step;
      const std::int64_t count = std::min(kPart, rows - begin);
      const auto sum = count <= kRows ? rows_of<N, 1>(from, count, step, at)
                                      : rows_of<N, 3>(from, count, step, at);
      for (int k = 0; k < N; ++k) {
        put(total + k * kLanes<T>, join(at(total + k * kLanes<T>), sum[k]));
      }
    }
  }

  static void whole_strip(T* total, const T* p, std::int64_t rows, std::int64_t step) {
    add_rows<kStripVectors>(
        total, p, rows, step, [](const T* q) { return load(q); },
        [](T* q, const V& x) { store(q, x); });
  }

  static void one_vector(T* total, const T* p, std::int64_t rows, std::int64_t step,
                         std::int64_t width) {
    if (width == kLanes<T>) {
      add_rows<1>(
          total, p, rows, step, [](const T* q) { return load(q); },
          [](T* q, const V& x) { store(q, x); });
    } else {
      add_rows<1>(
          total, p, rows, step, [width](const T* q) { return load(q, width); },
          [width](T* q, const V& x) { store(q, x, width); });
    }
  }
};

/// Sums of squares in f64 throughout, as the square of an f32 may leave its range; the root is
/// taken of the whole.
template <>
struct Fold<ReduceKind::norm, float> {
  using Total = double;
  using Part = double;
  static constexpr std::int64_t kBlock = 4096;
  static constexpr std::int64_t kStrip = 4 * kLanes<float>;
  static constexpr bool kWidens = false;

  template <class S>
  static constexpr S start() {
    return S(0);
  }
  static double join_one(double a, double b) { return a + b; }
  static double part_of(float x) { return static_cast<double>(x) * static_cast<double>(x); }

  static double run(const float* p, std::int64_t n) {
    using S = Simd<float>;
    using D = Simd<double>;
    constexpr std::int64_t kStep = S::kWidth;
    D::Reg low[2] = {D::zero(), D::zero()}, high[2] = {D::zero(), D::zero()};
    const auto add = [&](S::Reg x, int k) {
      const D::Reg a = low_half(x), b = high_half(x);
      low[k] = D::fma(a, a, low[k]);
      high[k] = D::fma(b, b, high[k]);
    };
    std::int64_t i = 0;
    for (; i + 2 * kStep <= n; i += 2 * kStep) {
      add(S::load(p + i), 0);
      add(S::load(p + i + kStep), 1);
    }
    if (i + kStep <= n) add(S::load(p + i), 0), i += kStep;
    if (i < n) add(S::load(p + i, S::mask(n - i)), 1);
    return D::sum((low[0] + high[0]) + (low[1] + high[1]));
  }

  static void columns(double* total, const float* p, std::int64_t rows, std::int64_t step,
                      std::int64_t width) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < width; ++c) {
        const auto x = static_cast<double>(p[r * step + c]);
        total[c] += x * x;
      }
    }
  }
};

template <>
struct Fold<ReduceKind::norm, double> : Fold<ReduceKind::sum_squares, double> {};

}  // namespace metronome::METRONOME_ISA
