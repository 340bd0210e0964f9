// Rows of a few elements, folded many at once: a call for each would cost more than its elements.
// A register holds several rows, each in a power of two of lanes; what a row has not changes
// nothing (*). Lanes are joined in pairs, two registers at a time, until each holds a row:
//
//   rows of 3 in 4 lanes     a0 a1 a2 *  b0 b1 b2 *        c0 c1 c2 *  d0 d1 d2 *
//   pairs                    a0+a1 a2+*  b0+b1 b2+*        c0+c1 c2+*  d0+d1 d2+*
//   pairs of these           a  b  c  d
//
// A row of more elements than a register has is first joined register by register:
//
//   a row of 6 in 4 lanes    a0 a1 a2 a3  and  a4 a5 * *   give   a0+a4 a1+a5 a2+* a3+*
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "ops/cpu/fold.h"
#include "ops/cpu/simd.h"

namespace metronome::METRONOME_ISA {

template <ReduceKind kKind, class T>
class ShortRows {
 public:
  using F = Fold<kKind, T>;
  using Part = typename F::Part;
  static constexpr std::int64_t kLongest = 32;
  /// Rows that are folded together.
  static constexpr std::int64_t kLanes = Simd<float>::kWidth * 4 / sizeof(Part);

  /// Folds rows of n elements, 2 <= n <= kLongest, that lie one after the other;
  /// each(row, count, parts): the parts of `count` rows from `row` on.
  template <class Each>
  static void fold(const T* p, std::int64_t rows, std::int64_t n, const Each& each) {
    if (n == 2) return fold_all<2, true>(p, rows, n, each);
    if constexpr (kLanes >= 4) {
      if (n == 4) return fold_all<4, true>(p, rows, n, each);
      if (n <= 4) return fold_all<4, false>(p, rows, n, each);
    }
    if constexpr (kLanes >= 8) {
      if (n <= 8) return fold_all<8, false>(p, rows, n, each);
    }
    if constexpr (kLanes >= 16) {
      if (n <= 16) return fold_all<16, false>(p, rows, n, each);
    }
    return fold_all<kLanes, false>(p, rows, n, each);
  }

 private:
  using Index = std::conditional_t<sizeof(Part) == 8, std::int64_t, std::int32_t>;
  using Parts [[gnu::vector_size(kLanes * sizeof(Part))]] = Part;
  using Elements [[gnu::vector_size(kLanes * sizeof(T))]] = T;
  using Indices [[gnu::vector_size(kLanes * sizeof(Index))]] = Index;

  /// kRow: lanes of a row; kWhole: all of them are elements, and there are no more.
  template <int kRow, bool kWhole, class Each>
  static void fold_all(const T* p, std::int64_t rows, std::int64_t n, const Each& each) {
    const RowLanes<kRow> lanes(n);
    // Registers are read whole, also beyond the last row that is wanted.
    const std::int64_t before_end = std::max<std::int64_t>(rows - (kLanes + n - 1) / n, 0);
    std::int64_t row = 0;
    for (; row + kLanes <= before_end; row += kLanes) {
      const Parts parts = fold_registers<kRow, kWhole, kRow>(p + row * n, n, lanes, 0);
      each(row, kLanes, reinterpret_cast<const Part*>(&parts));
    }
    for (; row < rows; row += kLanes) {
      const std::int64_t count = std::min(kLanes, rows - row);
      alignas(64) T last[kLanes * (kLongest + 1)] = {};
      std::copy_n(p + row * n, count * n, last);
      const Parts parts = fold_registers<kRow, kWhole, kRow>(last, n, lanes, 0);
      each(row, count, reinterpret_cast<const Part*>(&parts));
    }
  }

  /// How rows lie in the lanes of registers.
  template <int kRow>
  struct RowLanes {
    static constexpr std::int64_t kRows = kLanes / kRow;  ///< of a register
    std::int64_t whole;                                   ///< registers of a row before its last
    Indices of;       ///< of the last one: the elements of what is read that its lanes take
    Indices missing;  ///< -1 in lanes for which the row has no element, 0 in others

    explicit RowLanes(std::int64_t n) : whole((n - 1) / kRow) {
      const std::int64_t rest = n - whole * kRow;
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        const std::int64_t i = lane % kRow;
        of[lane] = static_cast<Index>(i < rest ? lane / kRow * n + i : 0);
        missing[lane] = i < rest ? 0 : -1;
      }
    }
  };

  template <int kRow, bool kWhole, int kCount>
  static Parts fold_registers(const T* p, std::int64_t n, const RowLanes<kRow>& lanes, int first) {
    if constexpr (kCount == 1) {
      return fold_register<kRow, kWhole>(p + first * lanes.kRows * n, lanes);
    } else {
      constexpr int kHalf = kCount / 2;
      return in_pairs(fold_registers<kRow, kWhole, kHalf>(p, n, lanes, first),
                      fold_registers<kRow, kWhole, kHalf>(p, n, lanes, first + kHalf),
                      std::make_integer_sequence<int, kLanes>());
    }
  }

  /// The rows that begin at p and lie in one register, or a longer one of several.
  template <int kRow, bool kWhole>
  static Parts fold_register(const T* p, const RowLanes<kRow>& lanes) {
    if constexpr (kWhole) return load(p);
    Parts last = load(p + lanes.whole * kLanes);
    if constexpr (kRow < kLanes) last = __builtin_shuffle(last, lanes.of);
    const Parts none = Parts{} + F::template start<Part>();
    last = lanes.missing ? none : last;
    if constexpr (kRow == kLanes) {
      if (lanes.whole == 0) return last;
      Parts all = load(p);
      for (std::int64_t k = 1; k < lanes.whole; ++k) all = joined(all, load(p + k * kLanes));
      return joined(all, last);
    }
    return last;
  }

  static Parts load(const T* p) {
    Elements x;
    std::memcpy(&x, p, sizeof(x));
    return counted(__builtin_convertvector(x, Parts));
  }

  static Parts counted(Parts x) {
    if constexpr (kKind == ReduceKind::sum_squares || kKind == ReduceKind::norm) return x * x;
    return x;
  }

  template <int... kLane>
  static Parts in_pairs(Parts a, Parts b, std::integer_sequence<int, kLane...>) {
    const Parts even = __builtin_shuffle(a, b, Indices{2 * kLane...});
    const Parts odd = __builtin_shuffle(a, b, Indices{2 * kLane + 1 ...});
    return joined(even, odd);
  }

  static Parts joined(Parts a, Parts b) {
    if constexpr (kKind == ReduceKind::max) {
      return (a > b) | (a != a) ? a : b;  // NaN stays
    } else if constexpr (kKind == ReduceKind::min) {
      return (a < b) | (a != a) ? a : b;
    } else if constexpr (std::is_integral_v<Part>) {  // wraps around
      using Bits [[gnu::vector_size(sizeof(Parts))]] = std::make_unsigned_t<Part>;
      return reinterpret_cast<Parts>(reinterpret_cast<Bits>(a) + reinterpret_cast<Bits>(b));
    } else {
      return a + b;
    }
  }
};

}  // namespace metronome::METRONOME_ISA
