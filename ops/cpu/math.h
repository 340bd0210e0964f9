// exp, erf and tanh of f32 vectors, inline: a tiny tensor has no time for a call per vector. f64
// takes Sleef's. Largest errors against f64, over every 251st float: exp 1 ulp, tanh 4.6 ulp, erf
// 3.3e-7.
#pragma once

#include "ops/cpu/vector.h"

namespace metronome::METRONOME_ISA {

inline Vector<float> polynomial(const Vector<float>&, const Vector<float>& sum) { return sum; }

/// Horner's rule with fused steps: sum * x^n + c1 * x^(n-1) + ... + cn.
template <class... Rest>
inline Vector<float> polynomial(const Vector<float>& x, const Vector<float>& sum, float c,
                                Rest... rest) {
  return polynomial(x, at::vec::fmadd(sum, x, Vector<float>(c)), rest...);
}

/// x * 2^n for whole n from -152 to 130.
inline Vector<float> scaled(const Vector<float>& x, const Vector<float>& n) {
#ifdef __AVX512F__
  return _mm512_scalef_ps(x, n);
#else
  // In two steps, so that neither factor leaves the range of exponents.
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  const auto power = [](__m256i e) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
  };
  return _mm256_mul_ps(_mm256_mul_ps(x, power(half)), power(_mm256_sub_epi32(whole, half)));
#endif
}

/// Cephes' expf: 2^n * e^r with |r| <= ln(2) / 2.
inline Vector<float> exp(const Vector<float>& x) {
  using V = Vector<float>;
  const V inside = at::vec::clamp(x, V(-104.0f), V(89.0f));  // 0 and infinity beyond; keeps NaN
  const V n = (inside * V(1.44269504088896341f)).round();
  // ln(2) in two parts, the first of few bits so that n times it is exact.
  const V r = at::vec::fmadd(n, V(2.12194440e-4f), at::vec::fmadd(n, V(-0.693359375f), inside));
  const V p = polynomial(r, V(1.9875691500e-4f), 1.3981999507e-3f, 8.3334519073e-3f,
                         4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f);
  return scaled(at::vec::fmadd(p, r * r, r) + V(1.0f), n);
}

template <class T>
requires(!std::is_same_v<T, float>) inline Vector<T> exp(const Vector<T>& x) { return x.exp(); }

/// A rational approximation of degrees 13 and 8 (Eigen's).
inline Vector<float> erf(const Vector<float>& x) {
  using V = Vector<float>;
  const V inside = at::vec::clamp(x, V(-4.0f), V(4.0f));
  const V s = inside * inside;
  const V p = polynomial(s, V(-2.72614225801306e-10f), 2.77068142495902e-08f,
                         -2.10102402082508e-06f, -5.69250639462346e-05f, -7.34990630326855e-04f,
                         -2.95459980854025e-03f, -1.60960333262415e-02f);
  const V q = polynomial(s, V(-1.45660718464996e-05f), -2.13374055278905e-04f,
                         -1.68282697438203e-03f, -7.37332916720468e-03f, -1.42647390514189e-02f);
  return inside * p / q;
}

template <class T>
requires(!std::is_same_v<T, float>) inline Vector<T> erf(const Vector<T>& x) { return x.erf(); }

/// A rational approximation of degrees 13 and 6 (Eigen's).
inline Vector<float> tanh(const Vector<float>& x) {
  using V = Vector<float>;
  const V inside = at::vec::clamp(x, V(-7.90531110763549805f), V(7.90531110763549805f));
  const V s = inside * inside;
  const V p = polynomial(s, V(-2.76076847742355e-16f), 2.00018790482477e-13f,
                         -8.60467152213735e-11f, 5.12229709037114e-08f, 1.48572235717979e-05f,
                         6.37261928875436e-04f, 4.89352455891786e-03f);
  const V q = polynomial(s, V(1.19825839466702e-06f), 1.18534705686654e-04f, 2.26843463243900e-03f,
                         4.89352518554385e-03f);
  return V::blendv(inside * p / q, x, x.abs() < V(0.0004f));
}

template <class T>
requires(!std::is_same_v<T, float>) inline Vector<T> tanh(const Vector<T>& x) { return x.tanh(); }

}  // namespace metronome::METRONOME_ISA
