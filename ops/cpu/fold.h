// Many elements folded into one: what a reduction does to a run and to columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/cpu/vector.h"
#include "ops/reduce.h"

namespace metronome::METRONOME_ISA {

/// The folding of one kind. Runs are folded in vectors, block by block; blocks in f64 (i64 for
/// integers), so that long sums of f32 keep their accuracy.
template <Reduce::Kind kKind, class T>
struct Fold {
  using V = Vector<T>;
  using Total = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
  static constexpr bool kMax = kKind == Reduce::Kind::max;
  static constexpr bool kMin = kKind == Reduce::Kind::min;
  static constexpr std::int64_t kBlock = 4096;

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
      return at::vec::maximum(a, b);
    } else if constexpr (kMin) {
      return at::vec::minimum(a, b);
    } else {
      return a + b;
    }
  }
  template <class S>
  static S join_one(S a, S b) {
    if constexpr (kMax) {
      return a > b || a != a ? a : b;  // NaN stays
    } else if constexpr (kMin) {
      return a < b || a != a ? a : b;
    } else if constexpr (std::is_integral_v<S>) {
      return static_cast<S>(static_cast<std::make_unsigned_t<S>>(a) +
                            static_cast<std::make_unsigned_t<S>>(b));  // wraps around
    } else {
      return a + b;
    }
  }
  /// What an element counts for.
  static V count(const V& x) {
    if constexpr (kKind == Reduce::Kind::sum_squares) {
      return x * x;
    } else {
      return x;
    }
  }
  /// `count` elements, fewer than a vector; the other lanes change nothing.
  static V part(const T* p, std::int64_t n) {
    const V x = count(load(p, n));
    if constexpr (kMax || kMin) {
      return V::set(V(start<T>()), x, n);
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
    V a(start<T>());
    if (n >= 4 * kStep) {
      V b = a, c = a, d = a;
      for (; n >= 4 * kStep; n -= 4 * kStep, p += 4 * kStep) {
        a = join(a, count(load(p)));
        b = join(b, count(load(p + kStep)));
        c = join(c, count(load(p + 2 * kStep)));
        d = join(d, count(load(p + 3 * kStep)));
      }
      a = join(join(a, b), join(c, d));
    }
    for (; n >= kStep; n -= kStep, p += kStep) a = join(a, count(load(p)));
    if (n > 0) a = join(a, part(p, n));
    return lanes(a);
  }

  /// A run of n elements.
  static Total run(const T* p, std::int64_t n) {
    if (n <= kBlock) return static_cast<Total>(block(p, n));
    Total total = start<Total>();
    for (std::int64_t i = 0; i < n; i += kBlock) {
      total = join_one(total, static_cast<Total>(block(p + i, std::min(kBlock, n - i))));
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
  // Rows that are added before their sum is added to the sum of all: keeps long sums accurate.
  static constexpr std::int64_t kRows = 256;

  static void whole_strip(T* total, const T* p, std::int64_t rows, std::int64_t step) {
    for (std::int64_t begin = 0; begin < rows; begin += kRows) {
      V a(start<T>()), b = a, c = a, d = a;
      for (std::int64_t r = begin; r < std::min(rows, begin + kRows); ++r) {
        const T* row = p + r * step;
        a = join(a, count(load(row)));
        b = join(b, count(load(row + kLanes<T>)));
        c = join(c, count(load(row + 2 * kLanes<T>)));
        d = join(d, count(load(row + 3 * kLanes<T>)));
      }
      store(total, join(load(total), a));
      store(total + kLanes<T>, join(load(total + kLanes<T>), b));
      store(total + 2 * kLanes<T>, join(load(total + 2 * kLanes<T>), c));
      store(total + 3 * kLanes<T>, join(load(total + 3 * kLanes<T>), d));
    }
  }

  static void one_vector(T* total, const T* p, std::int64_t rows, std::int64_t step,
                         std::int64_t width) {
    const bool full = width == kLanes<T>;
    const auto at = [&](const T* q) { return full ? load(q) : load(q, width); };
    for (std::int64_t begin = 0; begin < rows; begin += kRows) {
      V a(start<T>());
      for (std::int64_t r = begin; r < std::min(rows, begin + kRows); ++r) {
        a = join(a, count(at(p + r * step)));
      }
      const V sum = join(at(total), a);
      full ? store(total, sum) : store(total, sum, width);
    }
  }
};

}  // namespace metronome::METRONOME_ISA
