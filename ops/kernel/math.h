// The functions of one number that kernels call, under names that all three compilers know: on a
// device CUDA's own in full precision, on the host the compiler's.
#pragma once

#include "ops/kernel/kernel.h"

namespace metronome::cuda {

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
METRONOME_DEVICE float exp_of(float x) { return ::expf(x); }
METRONOME_DEVICE double exp_of(double x) { return ::exp(x); }
METRONOME_DEVICE float log_of(float x) { return ::logf(x); }
METRONOME_DEVICE double log_of(double x) { return ::log(x); }
METRONOME_DEVICE float log1p_of(float x) { return ::log1pf(x); }
METRONOME_DEVICE double log1p_of(double x) { return ::log1p(x); }
METRONOME_DEVICE float expm1_of(float x) { return ::expm1f(x); }
METRONOME_DEVICE double expm1_of(double x) { return ::expm1(x); }
METRONOME_DEVICE float sqrt_of(float x) { return ::sqrtf(x); }
METRONOME_DEVICE double sqrt_of(double x) { return ::sqrt(x); }
METRONOME_DEVICE float fma_of(float x, float y, float z) { return ::fmaf(x, y, z); }
METRONOME_DEVICE double fma_of(double x, double y, double z) { return ::fma(x, y, z); }
METRONOME_DEVICE double pow_of(double x, double y) { return ::pow(x, y); }
#else
METRONOME_DEVICE float exp_of(float x) { return __builtin_expf(x); }
METRONOME_DEVICE double exp_of(double x) { return __builtin_exp(x); }
METRONOME_DEVICE float log_of(float x) { return __builtin_logf(x); }
METRONOME_DEVICE double log_of(double x) { return __builtin_log(x); }
METRONOME_DEVICE float log1p_of(float x) { return __builtin_log1pf(x); }
METRONOME_DEVICE double log1p_of(double x) { return __builtin_log1p(x); }
METRONOME_DEVICE float expm1_of(float x) { return __builtin_expm1f(x); }
METRONOME_DEVICE double expm1_of(double x) { return __builtin_expm1(x); }
METRONOME_DEVICE float sqrt_of(float x) { return __builtin_sqrtf(x); }
METRONOME_DEVICE double sqrt_of(double x) { return __builtin_sqrt(x); }
METRONOME_DEVICE float fma_of(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
METRONOME_DEVICE double fma_of(double x, double y, double z) { return __builtin_fma(x, y, z); }
METRONOME_DEVICE double pow_of(double x, double y) { return __builtin_pow(x, y); }
#endif

/// Returns `average`, that of x - mean, if it is no larger than rounding the mean of x to T
/// explains. A larger one means that `mean` is of something else, and is to be taken as it is: then
/// returns 0.
METRONOME_DEVICE double left_of_mean(double average, float mean) {
  const double size = mean < 0 ? -double(mean) : double(mean), most = size * 0x1p-23 + 0x1p-149;
  return average <= most && average >= -most ? average : 0;
}
METRONOME_DEVICE double left_of_mean(double average, double mean) {
  const double size = mean < 0 ? -mean : mean, most = size * 0x1p-52;
  return average <= most && average >= -most ? average : 0;
}

/// The ends of a type's range: infinities of floating types.
template <class T>
struct Range;
template <>
struct Range<float> {
  static METRONOME_DEVICE float highest() { return __builtin_bit_cast(float, 0x7f800000); }
  static METRONOME_DEVICE float lowest() { return -highest(); }
};
template <>
struct Range<double> {
  static METRONOME_DEVICE double highest() {
    return __builtin_bit_cast(double, 0x7ff0000000000000LL);
  }
  static METRONOME_DEVICE double lowest() { return -highest(); }
};
template <>
struct Range<int> {
  static METRONOME_DEVICE int highest() { return 0x7fffffff; }
  static METRONOME_DEVICE int lowest() { return -highest() - 1; }
};
template <>
struct Range<long long> {
  static METRONOME_DEVICE long long highest() { return 0x7fffffffffffffffLL; }
  static METRONOME_DEVICE long long lowest() { return -highest() - 1; }
};

}  // namespace metronome::cuda
