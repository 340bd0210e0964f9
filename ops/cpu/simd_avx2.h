// Registers of AVX2, for simd.h.
#pragma once

#include <cstdint>

#include "ops/cpu/x86.h"

namespace metronome::METRONOME_ISA {

constexpr int kRegisters = 16;

template <class T>
struct Avx2;

template <>
struct Avx2<float> {
  using Reg = __m256;
  using Mask = __m256i;
  static constexpr int kWidth = 8;

  static Mask mask(std::int64_t count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Reg zero() { return _mm256_setzero_ps(); }
  static Reg set(float x) { return _mm256_set1_ps(x); }
  static Reg load(const float* p) { return _mm256_loadu_ps(p); }
  static Reg load(const float* p, Mask m) { return _mm256_maskload_ps(p, m); }
  static void store(float* p, Reg x) { _mm256_storeu_ps(p, x); }
  static void store(float* p, Mask m, Reg x) { _mm256_maskstore_ps(p, m, x); }
  static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
  static Reg max(Reg a, Reg b) { return _mm256_max_ps(a, b); }
  static Reg min(Reg a, Reg b) { return _mm256_min_ps(a, b); }
  static Reg sqrt(Reg x) { return _mm256_sqrt_ps(x); }
  template <Rounding kMode>
  static Reg round(Reg x) {
    return _mm256_round_ps(x, number_of(kMode));
  }
  template <Order kOrder>
  static Mask compare(Reg a, Reg b) {
    return _mm256_castps_si256(_mm256_cmp_ps(a, b, number_of(kOrder)));
  }
  static Reg select(Mask m, Reg x, Reg y) { return _mm256_blendv_ps(y, x, _mm256_castsi256_ps(m)); }
  static Reg if_less(Reg a, Reg b, Reg yes, Reg no) {
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  static float sum(Reg x) {
    __m128 s = _mm256_castps256_ps128(x) + _mm256_extractf128_ps(x, 1);
    s = s + _mm_movehl_ps(s, s);
    return _mm_cvtss_f32(s + _mm_movehdup_ps(s));
  }
  static float maximum(Reg x) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
  }
};

template <>
struct Avx2<double> {
  using Reg = __m256d;
  using Mask = __m256i;
  static constexpr int kWidth = 4;

  static Mask mask(std::int64_t count) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
  }
  static Reg zero() { return _mm256_setzero_pd(); }
  static Reg set(double x) { return _mm256_set1_pd(x); }
  static Reg load(const double* p) { return _mm256_loadu_pd(p); }
  static Reg load(const double* p, Mask m) { return _mm256_maskload_pd(p, m); }
  static void store(double* p, Reg x) { _mm256_storeu_pd(p, x); }
  static void store(double* p, Mask m, Reg x) { _mm256_maskstore_pd(p, m, x); }
  static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_pd(a, b, c); }
  static Reg max(Reg a, Reg b) { return _mm256_max_pd(a, b); }
  static Reg min(Reg a, Reg b) { return _mm256_min_pd(a, b); }
  static Reg sqrt(Reg x) { return _mm256_sqrt_pd(x); }
  template <Rounding kMode>
  static Reg round(Reg x) {
    return _mm256_round_pd(x, number_of(kMode));
  }
  template <Order kOrder>
  static Mask compare(Reg a, Reg b) {
    return _mm256_castpd_si256(_mm256_cmp_pd(a, b, number_of(kOrder)));
  }
  static Reg select(Mask m, Reg x, Reg y) { return _mm256_blendv_pd(y, x, _mm256_castsi256_pd(m)); }
  static Reg if_less(Reg a, Reg b, Reg yes, Reg no) {
    return _mm256_blendv_pd(no, yes, _mm256_cmp_pd(a, b, _CMP_LT_OQ));
  }
  static double sum(Reg x) {
    const __m128d s = _mm256_castpd256_pd128(x) + _mm256_extractf128_pd(x, 1);
    return _mm_cvtsd_f64(s + _mm_unpackhi_pd(s, s));
  }
  static double maximum(Reg x) {
    const __m128d s = _mm_max_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_max_sd(s, _mm_unpackhi_pd(s, s)));
  }
};

/// The halves of a register in f64.
inline Avx2<double>::Reg low_half(Avx2<float>::Reg x) {
  return _mm256_cvtps_pd(_mm256_castps256_ps128(x));
}
inline Avx2<double>::Reg high_half(Avx2<float>::Reg x) {
  return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
}

}  // namespace metronome::METRONOME_ISA
