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

// Lane by lane by the C library: an element's bits do not depend on its neighbours.
template <class T>
inline Vector<T> sin(const Vector<T>& x) {
  return each_lane([](T lane) { return std::sin(lane); }, x);
}
template <class T>
inline Vector<T> cos(const Vector<T>& x) {
  return each_lane([](T lane) { return std::cos(lane); }, x);
}
template <class T>
inline Vector<T> asin(const Vector<T>& x) {
  return each_lane([](T lane) { return std::asin(lane); }, x);
}
template <class T>
inline Vector<T> acos(const Vector<T>& x) {
  return each_lane([](T lane) { return std::acos(lane); }, x);
}
template <class T>
inline Vector<T> atan(const Vector<T>& x) {
  return each_lane([](T lane) { return std::atan(lane); }, x);
}
template <class T>
inline Vector<T> atan2(const Vector<T>& y, const Vector<T>& x) {
  return each_lane([](T a, T b) { return std::atan2(a, b); }, y, x);
}
// In a wider type: the C library's own are more than 2 ulps off.
template <class T>
using Wider = std::conditional_t<sizeof(T) == 4, double, long double>;
template <class T>
inline Vector<T> erf(const Vector<T>& x) {
  return each_lane([](Wider<T> lane) { return static_cast<T>(std::erf(lane)); }, x);
}
template <class T>
inline Vector<T> erfc(const Vector<T>& x) {
  return each_lane([](Wider<T> lane) { return static_cast<T>(std::erfc(lane)); }, x);
}
template <class T>
inline Vector<T> fmod(const Vector<T>& x, const Vector<T>& y) {
  return each_lane([](T a, T b) { return std::fmod(a, b); }, x, y);
}
/// By exp(-|x|), which does not overflow: the tail keeps its digits.
template <class T>
inline Vector<T> sigmoid(const Vector<T>& x) {
  const Vector<T> e = exp(neg(abs(x)));
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
  const Vector<T> e = exp(neg(abs(x)));
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
  const Vector<T> inside = clamp(x, Vector<T>(-kNormalEnd<T>), Vector<T>(kNormalEnd<T>));
  return at_x.below + inside * (Vector<T>(0.39894228040143267794) * at_x.bell);
}
/// g (sigmoid(x) - target); where the target is 1, -g sigmoid(-x), which keeps its digits.
template <class T>
inline Vector<T> bce_gradient(const Vector<T>& g, const Vector<T>& x, const Vector<T>& target) {
  const Vector<T> zero(T(0)), one(T(1)), e = exp(neg(abs(x)));
  const Mask<T> is_one = target == one;
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
