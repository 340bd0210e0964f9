// The functions that the table of elementwise functions (ops/elementwise_rows.h) is written in, of
// single numbers in full precision; ops/cpu/formulas.h has them of vectors. Multiply-adds are not
// fused, so a row gives the same bits wherever it stands.
#pragma once

#include "ops/cuda/kernel.h"
#include "ops/cuda/math.h"

// The device's own functions have C's names; the host's compiler knows them as builtins.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define METRONOME_MATH(function) ::function
#else
#define METRONOME_MATH(function) __builtin_##function
#endif

#define METRONOME_FUNCTION(function)                                                  \
  METRONOME_DEVICE float function(float x) { return METRONOME_MATH(function##f)(x); } \
  METRONOME_DEVICE double function(double x) { return METRONOME_MATH(function)(x); }

namespace metronome::cuda::formula {

METRONOME_FUNCTION(erf)
METRONOME_FUNCTION(log1p)
METRONOME_FUNCTION(sin)
METRONOME_FUNCTION(cos)
METRONOME_FUNCTION(tanh)

METRONOME_DEVICE float pow(float x, float y) { return METRONOME_MATH(powf)(x, y); }
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

METRONOME_DEVICE float abs(float x) { return METRONOME_MATH(fabsf)(x); }
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
/// A NaN operand is the result.
template <class T>
METRONOME_DEVICE T minimum(T x, T y) {
  return x < y || x != x ? x : y;
}
template <class T>
METRONOME_DEVICE T maximum(T x, T y) {
  return x > y || x != x ? x : y;
}

template <class T>
METRONOME_DEVICE T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}
/// x * Phi(x), Phi the normal distribution function: (1 + erf(x / sqrt(2))) / 2.
template <class T>
METRONOME_DEVICE T gelu(T x) {
  return T(0.5) * x * (T(1) + erf(x * T(0.70710678118654752440)));
}
/// Phi(x) + x * phi(x), phi the density, without its tail of subnormal numbers.
template <class T>
METRONOME_DEVICE T gelu_slope(T x) {
  const T inside = x < T(-10) ? T(-10) : x > T(10) ? T(10) : x;
  const T cdf = T(0.5) * (T(1) + erf(inside * T(0.70710678118654752440)));
  const T pdf = T(0.39894228040143267794) * exp(T(-0.5) * inside * inside);
  return cdf + inside * pdf;
}
template <class T>
METRONOME_DEVICE T silu_slope(T x) {
  const T s = sigmoid(x);
  return s * (T(1) + x * (T(1) - s));
}

}  // namespace metronome::cuda::formula

#undef METRONOME_FUNCTION
#undef METRONOME_MATH
