// The functions that the table of elementwise functions (ops/elementwise/elementwise_rows.h) is
// written in, of single numbers in full precision; ops/cpu/formulas.h has them of vectors.
// Multiply-adds are not fused, so a row gives the same bits wherever it stands.
#pragma once

#include "ops/kernel/kernel.h"
#include "ops/kernel/math.h"

// The device's own functions have C's names; the host's compiler knows them as builtins. On the
// host those of f32 are f64's, rounded: how exact a C library is differs from machine to machine.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define METRONOME_MATH(function) ::function
#define METRONOME_MATH_F32(function) ::function##f
#else
#define METRONOME_MATH(function) __builtin_##function
#define METRONOME_MATH_F32(function) (float)__builtin_##function
#endif

#define METRONOME_FUNCTION(function)                                                   \
  METRONOME_DEVICE float function(float x) { return METRONOME_MATH_F32(function)(x); } \
  METRONOME_DEVICE double function(double x) { return METRONOME_MATH(function)(x); }

namespace metronome::cuda::formula {

METRONOME_FUNCTION(erf)
METRONOME_FUNCTION(erfc)
METRONOME_FUNCTION(log1p)
METRONOME_FUNCTION(expm1)
METRONOME_FUNCTION(floor)
METRONOME_FUNCTION(ceil)
METRONOME_FUNCTION(trunc)
METRONOME_FUNCTION(sin)
METRONOME_FUNCTION(cos)
METRONOME_FUNCTION(asin)
METRONOME_FUNCTION(acos)
METRONOME_FUNCTION(atan)
METRONOME_FUNCTION(tanh)

/// Halves to the even neighbour.
METRONOME_DEVICE float round(float x) { return METRONOME_MATH_F32(rint)(x); }
METRONOME_DEVICE double round(double x) { return METRONOME_MATH(rint)(x); }
METRONOME_DEVICE float atan2(float y, float x) { return METRONOME_MATH_F32(atan2)(y, x); }
METRONOME_DEVICE double atan2(double y, double x) { return METRONOME_MATH(atan2)(y, x); }
METRONOME_DEVICE float fmod(float x, float y) { return METRONOME_MATH_F32(fmod)(x, y); }
METRONOME_DEVICE double fmod(double x, double y) { return METRONOME_MATH(fmod)(x, y); }
METRONOME_DEVICE float pow(float x, float y) { return METRONOME_MATH_F32(pow)(x, y); }
METRONOME_DEVICE double pow(double x, double y) { return METRONOME_MATH(pow)(x, y); }

template <class T>
METRONOME_DEVICE T exp(T x) {
  return exp_of(x);
}
template <class T>
METRONOME_DEVICE T log(T x) {
  return log_of(x);
}
template <class T>
METRONOME_DEVICE T sqrt(T x) {
  return sqrt_of(x);
}

METRONOME_DEVICE float abs(float x) { return METRONOME_MATH_F32(fabs)(x); }
METRONOME_DEVICE double abs(double x) { return METRONOME_MATH(fabs)(x); }
template <class T>
METRONOME_DEVICE T abs(T x) {
  return x < T(0) ? -x : x;
}
template <class T>
METRONOME_DEVICE T neg(T x) {
  return -x;
}
template <class T>
METRONOME_DEVICE T select(bool which, T yes, T no) {
  return which ? yes : no;
}
/// 0 where `gradient` is 0, else `product`, of which it is a factor.
template <class T>
METRONOME_DEVICE T unless_0(T gradient, T product) {
  return gradient == T(0) ? T(0) : product;
}
/// A NaN operand is the result.
template <class T>
METRONOME_DEVICE T minimum(T x, T y) {
  return x < y || x != x ? x : y;
}
template <class T>
METRONOME_DEVICE T maximum(T x, T y) {
  return x > y || x != x ? x : y;
}

/// By exp(-|x|), which does not overflow: the tail keeps its digits.
template <class T>
METRONOME_DEVICE T sigmoid(T x) {
  const T e = exp(-abs(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}
/// x, but -1000 below it: a factor of what is 0 there, as -inf times 0 is no number.
template <class T>
METRONOME_DEVICE T above_nothing(T x) {
  return x < T(-1000) ? T(-1000) : x;
}
/// x * sigmoid(x), rounded once less.
template <class T>
METRONOME_DEVICE T silu(T x) {
  const T e = exp(-abs(x));
  return above_nothing(x) * (x < T(0) ? e : T(1)) / (T(1) + e);
}
/// Beyond +-kNormalEnd the normal distribution is cut off, at 8e-24 in f32 and 6e-300 in f64: its
/// tail would sink into subnormal numbers.
template <class T>
constexpr T kNormalEnd = sizeof(T) == 4 ? 10 : 37;

/// Phi, the normal distribution function.
template <class T>
METRONOME_DEVICE T normal_below(T x) {
  return x <= -kNormalEnd<T> ? T(0) : T(0.5) * erfc(x * T(-0.70710678118654752440));
}
template <class T>
METRONOME_DEVICE T gelu(T x) {
  return above_nothing(x) * normal_below(x);
}
/// Phi(x) + x * phi(x), phi the density.
template <class T>
METRONOME_DEVICE T gelu_slope(T x) {
  if (x <= -kNormalEnd<T> || x >= kNormalEnd<T>) return x < T(0) ? T(0) : T(1);
  return normal_below(x) + x * (T(0.39894228040143267794) * exp(T(-0.5) * x * x));
}
/// g (sigmoid(x) - target); where the target is 1, -g sigmoid(-x), which keeps its digits.
template <class T>
METRONOME_DEVICE T bce_gradient(T g, T x, T target) {
  const T e = exp(-abs(x));
  const bool is_one = target == T(1), takes_e = (x < T(0)) != is_one;
  const T s = (takes_e ? e : T(1)) / (T(1) + e);
  return is_one ? -g * s : g * (s - target);
}
template <class T>
METRONOME_DEVICE T silu_slope(T x) {
  const T s = sigmoid(x), inside = x > T(1000) ? T(1000) : above_nothing(x);
  return s * (T(1) + inside * (T(1) - s));
}

}  // namespace metronome::cuda::formula

#undef METRONOME_FUNCTION
#undef METRONOME_MATH
