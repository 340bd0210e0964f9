// The functions that the table of elementwise functions (ops/elementwise/elementwise_rows.h) is
// written in, over vectors. Only what is written as fmadd is fused, so a row gives the same bits
// wherever it stands.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>

#include "ops/cpu/math.h"
#include "ops/cpu/vector.h"

namespace metronome::METRONOME_ISA {

/// yes where the lanes of the mask are set, else no.
template <class T>
inline Vector<T> select(const Vector<T>& mask, const Vector<T>& yes, const Vector<T>& no) {
  return Vector<T>::blendv(no, yes, mask);
}

/// 0 where `gradient` is 0, else `product`, of which it is a factor.
template <class T>
inline Vector<T> unless_0(const Vector<T>& gradient, const Vector<T>& product) {
  return select(gradient == Vector<T>(T(0)), Vector<T>(T(0)), product);
}

/// The bits of `yes` where the mask is set, else those of `no`, without a branch, so that the
/// compiler makes vectors of it.
template <std::unsigned_integral U>
inline U select(std::uint8_t mask, U yes, U no) {
  return static_cast<U>(no ^ ((yes ^ no) & (U{0} - U{mask})));
}

template <class T>
inline Vector<T> neg(const Vector<T>& x) {
  // A NaN stays the one it is, so that bits do not depend on which operand of a product comes
  // first.
  return Vector<T>(T(-0.0)) - x;
}
template <class T>
inline Vector<T> abs(const Vector<T>& x) {
  return x.abs();
}
template <class T>
inline Vector<T> sqrt(const Vector<T>& x) {
  return x.sqrt();
}
template <class T>
inline Vector<T> log(const Vector<T>& x) {
  return x.log();
}
/// Lane by lane: Sleef reduces the range of all lanes in the way that the largest needs, so an
/// element's bits would depend on its neighbours.
template <class T>
inline Vector<T> sin(const Vector<T>& x) {
  return x.map([](T lane) { return std::sin(lane); });
}
template <class T>
inline Vector<T> cos(const Vector<T>& x) {
  return x.map([](T lane) { return std::cos(lane); });
}
template <class T>
inline Vector<T> asin(const Vector<T>& x) {
  return x.asin();
}
template <class T>
inline Vector<T> acos(const Vector<T>& x) {
  return x.acos();
}
template <class T>
inline Vector<T> atan(const Vector<T>& x) {
  return x.atan();
}
template <class T>
inline Vector<T> atan2(const Vector<T>& y, const Vector<T>& x) {
  return y.atan2(x);
}
/// Sleef's, as libtorch's own of f32 has no digits near 0.
inline Vector<float> erf(const Vector<float>& x) {
#ifdef __AVX512F__
  return Sleef_erff16_u10(x);
#else
  return Sleef_erff8_u10(x);
#endif
}
inline Vector<double> erf(const Vector<double>& x) { return x.erf(); }
template <class T>
inline Vector<T> erfc(const Vector<T>& x) {
  return x.erfc();
}
template <class T>
inline Vector<T> log1p(const Vector<T>& x) {
  return x.log1p();
}
template <class T>
inline Vector<T> expm1(const Vector<T>& x) {
  return x.expm1();
}
template <class T>
inline Vector<T> floor(const Vector<T>& x) {
  return x.floor();
}
template <class T>
inline Vector<T> ceil(const Vector<T>& x) {
  return x.ceil();
}
/// Halves to the even neighbour.
template <class T>
inline Vector<T> round(const Vector<T>& x) {
  return x.round();
}
template <class T>
inline Vector<T> trunc(const Vector<T>& x) {
  return x.trunc();
}
/// Lane by lane, as Sleef's is wrong where x / y is large.
template <class T>
inline Vector<T> fmod(const Vector<T>& x, const Vector<T>& y) {
  T numerators[kLanes<T>], denominators[kLanes<T>];
  x.store(numerators), y.store(denominators);
  for (std::int64_t i = 0; i < kLanes<T>; ++i) {
    numerators[i] = std::fmod(numerators[i], denominators[i]);
  }
  return Vector<T>::loadu(numerators);
}
template <class T>
inline Vector<T> pow(const Vector<T>& x, const Vector<T>& y) {
  return x.pow(y);
}
/// By exp(-|x|), which does not overflow: the tail keeps its digits.
template <class T>
inline Vector<T> sigmoid(const Vector<T>& x) {
  const Vector<T> e = exp(neg(x.abs()));
  return if_less(x, Vector<T>(0), e, Vector<T>(1)) / (Vector<T>(1) + e);
}
/// x, but -1000 below it: a factor of what is 0 there, as -inf times 0 is no number.
template <class T>
inline Vector<T> above_nothing(const Vector<T>& x) {
  return if_less(x, Vector<T>(T(-1000)), Vector<T>(T(-1000)), x);
}
/// x * sigmoid(x), rounded once less.
template <class T>
inline Vector<T> silu(const Vector<T>& x) {
  const Vector<T> e = exp(neg(x.abs()));
  return above_nothing(x) * if_less(x, Vector<T>(0), e, Vector<T>(1)) / (Vector<T>(1) + e);
}
/// x * Phi(x), Phi the normal distribution function.
template <class T>
inline Vector<T> gelu(const Vector<T>& x) {
  return above_nothing(x) * normal(x).below;
}
/// Phi(x) + x * phi(x), phi the density.
template <class T>
inline Vector<T> gelu_slope(const Vector<T>& x) {
  const NormalFunctions<T> at_x = normal(x);
  const Vector<T> inside = at::vec::clamp(x, Vector<T>(-kNormalEnd<T>), Vector<T>(kNormalEnd<T>));
  return at_x.below + inside * (Vector<T>(0.39894228040143267794) * at_x.bell);
}
/// g (sigmoid(x) - target); where the target is 1, -g sigmoid(-x), which keeps its digits.
template <class T>
inline Vector<T> bce_gradient(const Vector<T>& g, const Vector<T>& x, const Vector<T>& target) {
  const Vector<T> zero(T(0)), one(T(1)), e = exp(neg(x.abs())), is_one = target == one;
  const Vector<T> of_x = if_less(x, zero, e, one), of_minus_x = if_less(x, zero, one, e);
  const Vector<T> s = select(is_one, of_minus_x, of_x) / (one + e);
  return select(is_one, neg(g) * s, g * (s - target));
}
template <class T>
inline Vector<T> silu_slope(const Vector<T>& x) {
  const Vector<T> s = sigmoid(x), end(T(1000));
  const Vector<T> inside = if_less(end, x, end, above_nothing(x));
  return s * (Vector<T>(1) + inside * (Vector<T>(1) - s));
}

}  // namespace metronome::METRONOME_ISA
