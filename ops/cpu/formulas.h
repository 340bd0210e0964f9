// The functions that the table of elementwise functions (ops/elementwise_rows.h) is written in,
// over vectors. Only what is written as fmadd is fused, so a row gives the same bits wherever it
// stands.
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

/// The same of bits, without a branch, so that the compiler makes vectors of it.
template <std::unsigned_integral U>
inline U select(std::uint8_t mask, U yes, U no) {
  return static_cast<U>(no ^ ((yes ^ no) & (U{0} - U{mask})));
}

template <class T>
inline Vector<T> neg(const Vector<T>& x) {
  return x.neg();
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
inline Vector<T> log1p(const Vector<T>& x) {
  return x.log1p();
}
template <class T>
inline Vector<T> pow(const Vector<T>& x, const Vector<T>& y) {
  return x.pow(y);
}
template <class T>
inline Vector<T> sigmoid(const Vector<T>& x) {
  return Vector<T>(1) / (Vector<T>(1) + exp(neg(x)));
}
/// x * Phi(x), Phi the normal distribution function: (1 + erf(x / sqrt(2))) / 2.
template <class T>
inline Vector<T> gelu(const Vector<T>& x) {
  return Vector<T>(0.5) * x * (Vector<T>(1) + erf(x * Vector<T>(0.70710678118654752440)));
}
/// Phi(x) + x * phi(x), phi the density. Beyond +-10 it is 0 or 1 to within 1e-21; the tail itself
/// would sink into subnormal numbers, which slow this kernel and every product that reads them.
template <class T>
inline Vector<T> gelu_slope(const Vector<T>& x) {
  const Vector<T> inside = at::vec::clamp(x, Vector<T>(-10), Vector<T>(10));
  const Vector<T> cdf =
      Vector<T>(0.5) * (Vector<T>(1) + erf(inside * Vector<T>(0.70710678118654752440)));
  const Vector<T> pdf = Vector<T>(0.39894228040143267794) * exp(Vector<T>(-0.5) * inside * inside);
  return cdf + inside * pdf;
}
template <class T>
inline Vector<T> silu_slope(const Vector<T>& x) {
  const Vector<T> s = sigmoid(x);
  return s * (Vector<T>(1) + x * (Vector<T>(1) - s));
}

}  // namespace metronome::METRONOME_ISA
