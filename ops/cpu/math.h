// exp, log, tanh and what is made of them, over vectors, inline: a tiny tensor has no time for a
// call per vector. Largest errors in ulps, f32 and f64: exp 1 and 1, expm1 1.5 and 1.9, tanh 1.2
// and 1.1, log and log1p 0.9, pow of f32 0.51 (tests/ops/kernels/math_test.cc).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ops/cpu/vector.h"

namespace metronome::METRONOME_ISA {

template <class T>
inline Vector<T> polynomial(const Vector<T>&, const Vector<T>& sum) {
  return sum;
}

/// Horner's rule with fused steps: sum * x^n + c1 * x^(n-1) + ... + cn.
template <class T, class... Rest>
inline Vector<T> polynomial(const Vector<T>& x, const Vector<T>& sum, T c, Rest... rest) {
  return polynomial(x, fmadd(sum, x, Vector<T>(c)), rest...);
}

// ---- powers of two -----------------------------------------------------------------------------

/// The layout of a floating number in memory.
template <class T>
struct Layout;
template <>
struct Layout<float> {
  static constexpr int kFraction = 23;  ///< bits
  static constexpr std::int32_t kBias = 127;
  static constexpr float kWhole = 0x1.8p23f;  ///< a small whole number in the lowest bits of a sum
};
template <>
struct Layout<double> {
  static constexpr int kFraction = 52;
  static constexpr std::int64_t kBias = 1023;
  static constexpr double kWhole = 0x1.8p52;
};

/// x * 2^n for whole n, from -152 to 130 in f32 and from -1080 to 1030 in f64.
template <class T>
inline Vector<T> scale_by_exponent(const Vector<T>& x, const Vector<T>& n) {
#ifdef __AVX512F__
  if constexpr (sizeof(T) == 4) return _mm512_scalef_ps(x, n);
  if constexpr (sizeof(T) == 8) return _mm512_scalef_pd(x, n);
#else
  using L = Layout<T>;
  // In two steps, so that neither factor leaves the range of exponents.
  const Vector<T> origin(L::kWhole);
  const Bits<T> whole = (n + origin).bits() - origin.bits(), half = whole >> 1;
  const auto power = [](Bits<T> e) { return Vector<T>::from_bits((e + L::kBias) << L::kFraction); };
  return x * power(half) * power(whole - half);
#endif
}

/// x = 2^e m with m from sqrt(1/2) to sqrt(2), for normal x above 0.
template <class T>
struct ExponentAndRest {
  Vector<T> e, m;
};
template <class T>
inline ExponentAndRest<T> split_exponent(const Vector<T>& x) {
  using L = Layout<T>;
  const Bits<T> root = Vector<T>(T(0.70710678118654752440)).bits();
  const Bits<T> whole = (x.bits() - root) >> L::kFraction;
  const Vector<T> origin(L::kWhole);
  return {Vector<T>::from_bits(origin.bits() + whole) - origin,
          Vector<T>::from_bits(x.bits() - (whole << L::kFraction))};
}

// ---- exp, expm1 and tanh -----------------------------------------------------------------------

/// x = n ln(2) + r with whole n and |r| <= ln(2) / 2, and `rest` = e^r - 1.
template <class T>
struct PowerOfE {
  Vector<T> n, rest;
};

/// For |x| <= 104: the polynomial of Cephes' expf.
inline PowerOfE<float> power_of_e(const Vector<float>& x) {
  using V = Vector<float>;
  const V n = round(x * V(1.44269504088896341f));
  // ln(2) in two parts, the first of few bits so that n times it is exact.
  const V r = fmadd(n, V(2.12194440e-4f), fmadd(n, V(-0.693359375f), x));
  const V p = polynomial(r, V(1.9875691500e-4f), 1.3981999507e-3f, 8.3334519073e-3f,
                         4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f);
  return {n, fmadd(p, r * r, r)};
}

/// For |x| <= 746: the series up to r^13.
inline PowerOfE<double> power_of_e(const Vector<double>& x) {
  using V = Vector<double>;
  const V n = round(x * V(0x1.71547652b82fep+0));
  const V r = fmadd(n, V(-0x1.a39ef35793c76p-33), fmadd(n, V(-0x1.62e42fee00000p-1), x));
  const V p = polynomial(r, V(1.0 / 6227020800), 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                         1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24,
                         1.0 / 6, 0.5);
  return {n, fmadd(p, r * r, r)};
}

inline Vector<float> exp(const Vector<float>& x) {
  using V = Vector<float>;
  // 0 and infinity beyond; keeps NaN.
  const PowerOfE<float> power = power_of_e(clamp(x, V(-104.0f), V(89.0f)));
  return scale_by_exponent(power.rest + V(1.0f), power.n);
}
inline Vector<double> exp(const Vector<double>& x) {
  using V = Vector<double>;
  const PowerOfE<double> power = power_of_e(clamp(x, V(-746.0), V(710.0)));
  return scale_by_exponent(power.rest + V(1.0), power.n);
}

/// 2^n (rest + 1 - 2^-n), whose parts of one size are added once.
template <class T>
inline Vector<T> expm1(const Vector<T>& x) {
  using V = Vector<T>;
  // -1 below; infinity above.
  const V least(sizeof(T) == 4 ? T(-20) : T(-40)), most(sizeof(T) == 4 ? T(89) : T(710));
  const PowerOfE<T> power = power_of_e(clamp(x, least, most));
  const V one(T(1)), inverse = scale_by_exponent(one, neg(power.n));
  const V y = scale_by_exponent(power.rest + (one - inverse), power.n);
  return select(x == V(T(0)), x, y);  // -0 stays
}

/// tanh(x) / x - 1 for |x| below 0.625, of x^2: Cephes' tanhf and tanh.
inline Vector<float> tanh_beyond_line(const Vector<float>& square) {
  return square * polynomial(square, Vector<float>(-5.70498872745e-3f), 2.06390887954e-2f,
                             -5.37397155531e-2f, 1.33314422036e-1f, -3.33332819422e-1f);
}
inline Vector<double> tanh_beyond_line(const Vector<double>& square) {
  using V = Vector<double>;
  const V p = polynomial(square, V(-9.64399179425052238628e-1), -9.92877231001918586564e1,
                         -1.61468768441708447952e3);
  const V q = polynomial(square, V(1.0), 1.12811678491631932401e2, 2.23548839060100448583e3,
                         4.84406305325125486048e3);
  return square * (p / q);
}

/// 1 - 2 / (exp(2 |x|) + 1) from 0.625 on, which keeps the distance to 1 that gradients are made
/// of.
template <class T>
inline Vector<T> tanh(const Vector<T>& x) {
  using V = Vector<T>;
  const V near(T(0.625)), one(T(1)), two(T(2)), end(T(sizeof(T) == 4 ? 10 : 25));
  const V size = clamp_max(abs(x), end);
  const PowerOfE<T> power = power_of_e(size + size);
  const V whole = scale_by_exponent(one, power.n);
  const V sum = fmadd(whole, power.rest, whole + one);
  V share = two / sum;
  if constexpr (sizeof(T) == 8) {  // what the sum and the quotient lost
    const V lost = fmadd(whole, power.rest, whole + one - sum);
    share = fmadd(fnmadd(share, lost, fnmadd(share, sum, two)), share * V(T(0.5)), share);
  }
  const V far = one - share;
  const V close = fmadd(tanh_beyond_line(size * size), size, size);
  return if_less(size, near, close, far) | (x & V(T(-0.0)));
}

// ---- log, log1p and pow ------------------------------------------------------------------------

/// log(m) - (m - 1) for m from sqrt(1/2) to sqrt(2): the polynomial of Cephes' logf.
inline Vector<float> log_beyond_line(const Vector<float>& m) {
  using V = Vector<float>;
  const V x = m - V(1.0f), square = x * x;
  const V p = polynomial(x, V(7.0376836292e-2f), -1.1514610310e-1f, 1.1676998740e-1f,
                         -1.2420140846e-1f, 1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f,
                         -2.4999993993e-1f, 3.3333331174e-1f);
  return fmadd(p, square * x, square * V(-0.5f));
}

/// The same by 2 atanh(s) with s = x / (2 + x), x = m - 1: s (x^2 / 2 + r) - x^2 / 2, where r is
/// the series of 2 atanh(s) / s - 2.
inline Vector<double> log_beyond_line(const Vector<double>& m) {
  using V = Vector<double>;
  const V x = m - V(1.0), s = x / (V(2.0) + x), z = s * s, half = V(0.5) * x * x;
  const V r = polynomial(z, V(2.0 / 23), 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11,
                         2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3);
  return s * (half + z * r) - half;
}

/// log(x) + extra for x above 0; `extra` is small beside it, or 0. -inf of 0, NaN below, and a NaN
/// stays.
template <class T>
inline Vector<T> log_plus(const Vector<T>& x, const Vector<T>& extra) {
  using V = Vector<T>;
  using Limits = std::numeric_limits<T>;
  // Subnormal numbers are made normal first.
  const T up = sizeof(T) == 4 ? T(0x1p25) : T(0x1p54);
  const Mask<T> small = x < V(Limits::min());
  const ExponentAndRest<T> parts = split_exponent(select(small, x * V(up), x));
  const V e = select(small, parts.e - V(T(sizeof(T) == 4 ? 25 : 54)), parts.e);
  // ln(2) in two parts, as above.
  const T coarse = sizeof(T) == 4 ? T(0.693359375) : T(0x1.62e42fee00000p-1);
  const T fine = sizeof(T) == 4 ? T(-2.12194440e-4) : T(0x1.a39ef35793c76p-33);
  const V beyond = fmadd(e, V(fine), log_beyond_line(parts.m)) + extra;
  const V y = fmadd(e, V(coarse), beyond + (parts.m - V(T(1))));
  const V end(Limits::infinity()), zero(T(0));
  const V below =
      select(x != x, x, select(x == zero, V(-Limits::infinity()), V(Limits::quiet_NaN())));
  return select(x > zero, select(x == end, end, y), below);
}

template <class T>
inline Vector<T> log(const Vector<T>& x) {
  return log_plus(x, Vector<T>(T(0)));
}

/// log(u) + (x - (u - 1)) / u for u = 1 + x, rounded: what rounding took away is put back.
template <class T>
inline Vector<T> log1p(const Vector<T>& x) {
  using V = Vector<T>;
  const V one(T(1)), u = one + x;
  const Mask<T> kept = (u == one) | (x == V(std::numeric_limits<T>::infinity()));
  return select(kept, x, log_plus(u, (x - (u - one)) / u));
}

/// Two vectors of f64 as one of f32, rounded.
inline Vector<float> join_halves(const Vector<double>& low, const Vector<double>& high) {
  using Half [[gnu::vector_size(kVectorBytes / 2)]] = float;
  const Half parts[2] = {__builtin_convertvector(Simd<double>::Reg(low), Half),
                         __builtin_convertvector(Simd<double>::Reg(high), Half)};
  Simd<float>::Reg all;
  std::memcpy(&all, parts, sizeof(all));
  return all;
}

/// By exp(y log(x)) in f64 for finite x above 0 and finite y; the C library's for others.
inline Vector<float> pow(const Vector<float>& x, const Vector<float>& y) {
  using V = Vector<float>;
  const auto half = [](const Vector<double>& a, const Vector<double>& b) {
    return exp(b * log(a));
  };
  const V plain = join_halves(half(low_half(x), low_half(y)), half(high_half(x), high_half(y)));
  const V zero(0.0f), end(std::numeric_limits<float>::infinity());
  const Mask<float> usual = (x > zero) & (x < end) & (abs(y) < end);
  const V special = select(usual, zero, V(1.0f));
  if (Simd<float>::maximum(special) == 0) return plain;
  const auto lane = [](float result, float is_special, float base, float exponent) {
    return is_special != 0 ? std::pow(base, exponent) : result;
  };
  return each_lane(lane, plain, special, x, y);
}
inline Vector<double> pow(const Vector<double>& x, const Vector<double>& y) {
  return each_lane([](double a, double b) { return std::pow(a, b); }, x, y);
}

// ---- the normal distribution -------------------------------------------------------------------

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
  const V end(kNormalEnd<float>), size = clamp_max(abs(x), end);
  const PowerOfE<float> power = power_of_e(size * size * V(-0.5f));
  const V bell = if_less(size, end, scale_by_exponent(power.rest + V(1.0f), power.n), V(0.0f));
  const V p = polynomial(size, V(4.588352752e-03f), 4.336979107e-02f, 1.849187555e-01f,
                         4.078490083e-01f, 3.989423452e-01f);
  const V q = polynomial(size, V(9.1767055046e-3f), 9.4061745694e-2f, 4.4487847371e-1f,
                         1.1635252449f, 1.6489853216f, 1.0f);
  const V tail = bell * fnmadd(size, p / q, V(0.5f));
  return {bell, if_less(x, V(0.0f), tail, V(1.0f) - tail)};
}

inline NormalFunctions<double> normal(const Vector<double>& x) {
  using V = Vector<double>;
  const V end(kNormalEnd<double>), size = clamp_max(abs(x), end);
  const V bell = if_less(size, end, exp(size * size * V(-0.5)), V(0.0));
  const V tail = each_lane([](double t) { return std::erfc(t); }, x * V(-0.70710678118654752440));
  return {bell, if_less(x, neg(end), V(0.0), V(0.5) * tail)};
}

}  // namespace metronome::METRONOME_ISA
