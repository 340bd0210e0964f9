// exp, tanh and the normal distribution of f32 vectors, inline: a tiny tensor has no time for a
// call per vector. f64 takes Sleef's. Largest errors against f64: exp 1 ulp over every 251st float,
// tanh 0.95 ulp over the values of tests/ops/kernels/edge_values_test.cc.
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
inline Vector<float> scale_by_exponent(const Vector<float>& x, const Vector<float>& n) {
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

/// yes where a < b, else no (also where one of them is NaN).
template <class T>
inline Vector<T> if_less(const Vector<T>& a, const Vector<T>& b, const Vector<T>& yes,
                         const Vector<T>& no) {
  return Simd<T>::if_less(a, b, yes, no);
}

/// x = n ln(2) + r with whole n and |r| <= ln(2) / 2, and `rest` = e^r - 1, of Cephes' expf.
struct PowerOfE {
  Vector<float> n, rest;
};

/// For |x| <= 104.
inline PowerOfE power_of_e(const Vector<float>& x) {
  using V = Vector<float>;
  const V n = (x * V(1.44269504088896341f)).round();
  // ln(2) in two parts, the first of few bits so that n times it is exact.
  const V r = at::vec::fmadd(n, V(2.12194440e-4f), at::vec::fmadd(n, V(-0.693359375f), x));
  const V p = polynomial(r, V(1.9875691500e-4f), 1.3981999507e-3f, 8.3334519073e-3f,
                         4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f);
  return {n, at::vec::fmadd(p, r * r, r)};
}

inline Vector<float> exp(const Vector<float>& x) {
  using V = Vector<float>;
  // 0 and infinity beyond; keeps NaN.
  const PowerOfE power = power_of_e(at::vec::clamp(x, V(-104.0f), V(89.0f)));
  return scale_by_exponent(power.rest + V(1.0f), power.n);
}

template <class T>
  requires(!std::is_same_v<T, float>)
inline Vector<T> exp(const Vector<T>& x) {
  return x.exp();
}

/// Cephes' tanhf: a polynomial near 0, 1 - 2 / (exp(2 |x|) + 1) beyond, which keeps the distance to
/// 1 that gradients are made of; 1 from 9.02 on.
inline Vector<float> tanh(const Vector<float>& x) {
  using V = Vector<float>;
  const V near(0.625f), one(1.0f), two(2.0f);
  const V size = at::vec::clamp_max(x.abs(), V(10.0f)), square = size * size;
  const V p = polynomial(square, V(-5.70498872745e-3f), 2.06390887954e-2f, -5.37397155531e-2f,
                         1.33314422036e-1f, -3.33332819422e-1f);
  const PowerOfE power = power_of_e(size + size);
  const V whole = scale_by_exponent(one, power.n);
  const V far = one - two / at::vec::fmadd(whole, power.rest, whole + one);
  return if_less(size, near, at::vec::fmadd(square * size, p, size), far) | (x & V(-0.0f));
}

template <class T>
  requires(!std::is_same_v<T, float>)
inline Vector<T> tanh(const Vector<T>& x) {
  return x.tanh();
}

/// Beyond +-kNormalEnd the normal distribution is cut off, at 8e-24 in f32 and 6e-300 in f64: its
/// tail would sink into subnormal numbers, which slow this kernel and every product that reads
/// them.
template <class T>
constexpr T kNormalEnd = sizeof(T) == 4 ? 10 : 37;

/// Two functions of the normal distribution: exp(-x^2 / 2), its density but for the factor
/// 1 / sqrt(2 pi), and its distribution function.
template <class T>
struct NormalFunctions {
  Vector<T> bell, below;
};

/// The tail from a size t on is exp(-t^2 / 2) (1/2 - t r(t)), r a rational function of degrees 4
/// and 5, fitted to within 3e-9 on [0, 10].
inline NormalFunctions<float> normal(const Vector<float>& x) {
  using V = Vector<float>;
  const V end(kNormalEnd<float>), size = at::vec::clamp_max(x.abs(), end);
  const PowerOfE power = power_of_e(size * size * V(-0.5f));
  const V bell = if_less(size, end, scale_by_exponent(power.rest + V(1.0f), power.n), V(0.0f));
  const V p = polynomial(size, V(4.588352752e-03f), 4.336979107e-02f, 1.849187555e-01f,
                         4.078490083e-01f, 3.989423452e-01f);
  const V q = polynomial(size, V(9.1767055046e-3f), 9.4061745694e-2f, 4.4487847371e-1f,
                         1.1635252449f, 1.6489853216f, 1.0f);
  const V tail = bell * at::vec::fnmadd(size, p / q, V(0.5f));
  return {bell, if_less(x, V(0.0f), tail, V(1.0f) - tail)};
}

inline NormalFunctions<double> normal(const Vector<double>& x) {
  using V = Vector<double>;
  const V end(kNormalEnd<double>), size = at::vec::clamp_max(x.abs(), end);
  const V bell = if_less(size, end, (size * size * V(-0.5)).exp(), V(0));
  const V below = V(0.5) * (x * V(-0.70710678118654752440)).erfc();
  return {bell, if_less(x, end.neg(), V(0), below)};
}

}  // namespace metronome::METRONOME_ISA
