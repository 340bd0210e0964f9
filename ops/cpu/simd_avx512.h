// Registers of AVX-512, for simd.h.
#pragma once

#include <cstdint>

#include "ops/cpu/x86.h"

namespace metronome::METRONOME_ISA {

constexpr int kRegisters = 32;

template <class T>
struct Avx512;

template <>
struct Avx512<float> {
  using Reg = __m512;
  using Mask = __mmask16;
  static constexpr int kWidth = 16;

  /// The first `count` elements, 0 <= count <= kWidth.
  static Mask mask(std::int64_t count) { return static_cast<Mask>((1u << count) - 1u); }
  static Reg zero() { return _mm512_setzero_ps(); }
  static Reg set(float x) { return _mm512_set1_ps(x); }
  static Reg load(const float* p) { return _mm512_loadu_ps(p); }
  static Reg load(const float* p, Mask m) { return _mm512_maskz_loadu_ps(m, p); }
  static void store(float* p, Reg x) { _mm512_storeu_ps(p, x); }
  static void store(float* p, Mask m, Reg x) { _mm512_mask_storeu_ps(p, m, x); }
  static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
  /// a if it is larger, else b: so b where one of them is NaN. `min` likewise.
  static Reg max(Reg a, Reg b) { return _mm512_max_ps(a, b); }
  static Reg min(Reg a, Reg b) { return _mm512_min_ps(a, b); }
  static Reg sqrt(Reg x) { return _mm512_sqrt_ps(x); }
  template <Rounding kMode>
  static Reg round(Reg x) {
    return _mm512_roundscale_ps(x, number_of(kMode));
  }
  template <Order kOrder>
  static Mask compare(Reg a, Reg b) {
    return _mm512_cmp_ps_mask(a, b, number_of(kOrder));
  }
  /// x where the mask is set, else y.
  static Reg select(Mask m, Reg x, Reg y) { return _mm512_mask_blend_ps(m, y, x); }
  static Reg if_less(Reg a, Reg b, Reg yes, Reg no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
  }
  static float sum(Reg x) { return _mm512_reduce_add_ps(x); }
  static float maximum(Reg x) { return _mm512_reduce_max_ps(x); }
};

template <>
struct Avx512<double> {
  using Reg = __m512d;
  using Mask = __mmask8;
  static constexpr int kWidth = 8;

  static Mask mask(std::int64_t count) { return static_cast<Mask>((1u << count) - 1u); }
  static Reg zero() { return _mm512_setzero_pd(); }
  static Reg set(double x) { return _mm512_set1_pd(x); }
  static Reg load(const double* p) { return _mm512_loadu_pd(p); }
  static Reg load(const double* p, Mask m) { return _mm512_maskz_loadu_pd(m, p); }
  static void store(double* p, Reg x) { _mm512_storeu_pd(p, x); }
  static void store(double* p, Mask m, Reg x) { _mm512_mask_storeu_pd(p, m, x); }
  static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_pd(a, b, c); }
  static Reg max(Reg a, Reg b) { return _mm512_max_pd(a, b); }
  static Reg min(Reg a, Reg b) { return _mm512_min_pd(a, b); }
  static Reg sqrt(Reg x) { return _mm512_sqrt_pd(x); }
  template <Rounding kMode>
  static Reg round(Reg x) {
    return _mm512_roundscale_pd(x, number_of(kMode));
  }
  template <Order kOrder>
  static Mask compare(Reg a, Reg b) {
    return _mm512_cmp_pd_mask(a, b, number_of(kOrder));
  }
  static Reg select(Mask m, Reg x, Reg y) { return _mm512_mask_blend_pd(m, y, x); }
  static Reg if_less(Reg a, Reg b, Reg yes, Reg no) {
    return _mm512_mask_blend_pd(_mm512_cmp_pd_mask(a, b, _CMP_LT_OQ), no, yes);
  }
  static double sum(Reg x) { return _mm512_reduce_add_pd(x); }
  static double maximum(Reg x) { return _mm512_reduce_max_pd(x); }
};

/// The halves of a register in f64.
inline Avx512<double>::Reg low_half(Avx512<float>::Reg x) {
  return _mm512_cvtps_pd(_mm512_castps512_ps256(x));
}
inline Avx512<double>::Reg high_half(Avx512<float>::Reg x) {
  return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
}

}  // namespace metronome::METRONOME_ISA
