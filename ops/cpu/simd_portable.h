// Registers of 16 bytes that every processor has, for simd.h: plain C++ on the compiler's vector
// types. Every operation rounds as IEEE 754 says, and none is fused, so the bits are those of every
// processor.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ops/cpu/simd_forms.h"

namespace metronome::METRONOME_ISA {

/// Tiles are cut for so many, whatever the processor has: their cut decides the order of sums.
constexpr int kRegisters = 16;

template <class T>
struct Portable {
  static constexpr int kWidth = 16 / sizeof(T);
  using Whole = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  using Reg [[gnu::vector_size(16), gnu::may_alias]] = T;
  using Mask [[gnu::vector_size(16), gnu::may_alias]] = Whole;

  static Mask mask(std::int64_t count) {
    Mask places;
    for (int i = 0; i < kWidth; ++i) places[i] = i;
    return places < static_cast<Whole>(count);
  }
  static Reg zero() { return Reg{}; }
  static Reg set(T x) { return x - Reg{}; }
  static Reg load(const T* p) {
    Reg x;
    std::memcpy(&x, p, sizeof(x));
    return x;
  }
  static Reg load(const T* p, Mask m) {
    Reg x = {};
    for (int i = 0; i < kWidth; ++i) {
      if (m[i] != 0) x[i] = p[i];
    }
    return x;
  }
  static void store(T* p, Reg x) { std::memcpy(p, &x, sizeof(x)); }
  static void store(T* p, Mask m, Reg x) {
    for (int i = 0; i < kWidth; ++i) {
      if (m[i] != 0) p[i] = x[i];
    }
  }
  static Reg fma(Reg a, Reg b, Reg c) { return a * b + c; }
  static Reg max(Reg a, Reg b) { return a > b ? a : b; }
  static Reg min(Reg a, Reg b) { return a < b ? a : b; }
  static Reg sqrt(Reg x) {
    for (int i = 0; i < kWidth; ++i) x[i] = std::sqrt(x[i]);
    return x;
  }
  template <Rounding kMode>
  static Reg round(Reg x) {
    // From here on every number is whole; adding it below rounds to whole numbers.
    const Reg end = set(sizeof(T) == 4 ? T(0x1p23) : T(0x1p52)), one = set(1);
    const Mask sign = reinterpret_cast<Mask>(set(T(-0.0)));
    const Reg size = reinterpret_cast<Reg>(reinterpret_cast<Mask>(x) & ~sign);
    const Reg of_size = (size + end) - end;
    const auto signed_as_x = [&](Reg y) {
      return reinterpret_cast<Reg>((reinterpret_cast<Mask>(y) & ~sign) |
                                   (reinterpret_cast<Mask>(x) & sign));
    };
    Reg y = signed_as_x(of_size);
    if constexpr (kMode == Rounding::down) y = signed_as_x(y > x ? y - one : y);
    if constexpr (kMode == Rounding::up) y = signed_as_x(y < x ? y + one : y);
    if constexpr (kMode == Rounding::to_zero) {
      y = signed_as_x(of_size > size ? of_size - one : of_size);
    }
    return size < end ? y : x;
  }
  template <Order kOrder>
  static Mask compare(Reg a, Reg b) {
    if constexpr (kOrder == Order::equal) return a == b;
    if constexpr (kOrder == Order::not_equal) return a != b;
    if constexpr (kOrder == Order::less) return a < b;
    if constexpr (kOrder == Order::less_equal) return a <= b;
  }
  static Reg select(Mask m, Reg x, Reg y) { return m ? x : y; }
  static Reg if_less(Reg a, Reg b, Reg yes, Reg no) { return a < b ? yes : no; }
  static T sum(Reg x) {
    if constexpr (kWidth == 4) return (x[0] + x[2]) + (x[1] + x[3]);
    return x[0] + x[kWidth - 1];
  }
  static T maximum(Reg x) {
    const auto larger = [](T a, T b) { return a > b ? a : b; };
    if constexpr (kWidth == 4) return larger(larger(x[0], x[2]), larger(x[1], x[3]));
    return larger(x[0], x[kWidth - 1]);
  }
};

/// The halves of a register in f64.
inline Portable<double>::Reg low_half(Portable<float>::Reg x) {
  Portable<double>::Reg half = {};
  for (int i = 0; i < 2; ++i) half[i] = x[i];
  return half;
}
inline Portable<double>::Reg high_half(Portable<float>::Reg x) {
  Portable<double>::Reg half = {};
  for (int i = 0; i < 2; ++i) half[i] = x[2 + i];
  return half;
}

}  // namespace metronome::METRONOME_ISA
