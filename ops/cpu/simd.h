// One vector register of f32 or f64 for the instruction set of this build. Registers are the
// compiler's vector types: + - * / work on them element by element.
#pragma once

// GCC 12 takes the undefined operand of its own AVX-512 intrinsics for a mistake of their users.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstdint>

namespace metronome::METRONOME_ISA {

template <class T>
struct Simd;

#ifdef __AVX512F__

constexpr int kRegisters = 32;

template <>
struct Simd<float> {
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
  static Reg max(Reg a, Reg b) { return _mm512_max_ps(a, b); }
  /// x where the mask is set, else y.
  static Reg select(Mask m, Reg x, Reg y) { return _mm512_mask_blend_ps(m, y, x); }
  /// yes where a < b, else no.
  static Reg if_less(Reg a, Reg b, Reg yes, Reg no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
  }
  static float sum(Reg x) { return _mm512_reduce_add_ps(x); }
  static float maximum(Reg x) { return _mm512_reduce_max_ps(x); }
};

template <>
struct Simd<double> {
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
  static Reg select(Mask m, Reg x, Reg y) { return _mm512_mask_blend_pd(m, y, x); }
  /// yes where a < b, else no.
  static Reg if_less(Reg a, Reg b, Reg yes, Reg no) {
    return _mm512_mask_blend_pd(_mm512_cmp_pd_mask(a, b, _CMP_LT_OQ), no, yes);
  }
  static double sum(Reg x) { return _mm512_reduce_add_pd(x); }
  static double maximum(Reg x) { return _mm512_reduce_max_pd(x); }
};

/// The halves of a register in f64.
inline Simd<double>::Reg low_half(Simd<float>::Reg x) {
  return _mm512_cvtps_pd(_mm512_castps512_ps256(x));
}
inline Simd<double>::Reg high_half(Simd<float>::Reg x) {
  return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
}

#else

constexpr int kRegisters = 16;

template <>
struct Simd<float> {
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
struct Simd<double> {
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
inline Simd<double>::Reg low_half(Simd<float>::Reg x) {
  return _mm256_cvtps_pd(_mm256_castps256_ps128(x));
}
inline Simd<double>::Reg high_half(Simd<float>::Reg x) {
  return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
}

#endif

}  // namespace metronome::METRONOME_ISA
