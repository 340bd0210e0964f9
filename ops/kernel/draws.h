// Random numbers of a counter, the same bits wherever they are compiled: all sums of products are
// fused by name, so that no compiler chooses, and what is left are products, quotients and square
// roots, which IEEE 754 rounds alike everywhere. No function of a C library is called.
#pragma once

#include "ops/kernel/kernel.h"
#include "ops/kernel/math.h"
#include "ops/kernel/philox.h"

namespace metronome::cuda {

enum class DrawKind : unsigned char { uniform, normal, gumbel };

/// sum x^n + c1 x^(n-1) + ... + cn, by Horner's rule.
METRONOME_DEVICE double horner(double, double sum) { return sum; }
template <class... Rest>
METRONOME_DEVICE double horner(double x, double sum, double c, Rest... rest) {
  return horner(x, fma_of(sum, x, c), rest...);
}

/// The logarithm of a normal number above 0, to about an ulp: x = 2^e m with m near 1, and
/// log m = 2 atanh(s), s = (m - 1) / (m + 1), by its series up to s^23.
METRONOME_DEVICE double exact_log(double x) {
  const auto bits = __builtin_bit_cast(unsigned long long, x);
  double e = static_cast<double>(static_cast<int>(bits >> 52) - 1023);
  double m = __builtin_bit_cast(double, (bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
  // Choices in place of a branch, for loops that compilers make vectors of.
  const bool high = m > 1.4142135623730951;
  m = m * (high ? 0.5 : 1.0);
  e = e + (high ? 1.0 : 0.0);
  const double s = (m - 1) / (m + 1), twice = s + s, square = s * s;
  const double rest = horner(square, 1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                             1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3);
  const double log_m = fma_of(twice * square, rest, twice);
  // ln 2 in two parts, the first of few bits.
  return fma_of(e, 0x1.62e42fee00000p-1, fma_of(e, 0x1.a39ef35793c76p-33, log_m));
}

// The inverse of the normal distribution function on (0, 1), in three parts: Wichura, "Algorithm AS
// 241: the percentage points of the normal distribution", 1988, its PPND16.

/// Whether 0.5 + q lies in the middle.
METRONOME_DEVICE bool is_middle(double q) { return q <= 0.425 && q >= -0.425; }
METRONOME_DEVICE double inverse_normal_middle(double q) {
  const double r = fma_of(-q, q, 0.180625);
  return q * (horner(r, 2.5090809287301226727e+3, 3.3430575583588128105e+4,
                     6.7265770927008700853e+4, 4.5921953931549871457e+4, 1.3731693765509461125e+4,
                     1.9715909503065514427e+3, 1.3314166789178437745e+2, 3.3871328727963666080e+0) /
              horner(r, 5.2264952788528545610e+3, 2.8729085735721942674e+4,
                     3.9307895800092710610e+4, 2.1213794301586595867e+4, 5.3941960214247511077e+3,
                     6.8718700749205790830e+2, 4.2313330701600911252e+1, 1.0));
}

/// sqrt(-log(p)) of p in the lower tail, or of 1 - p in the upper one.
METRONOME_DEVICE double tail_size(double p) { return sqrt_of(-exact_log(p < 0.5 ? p : 1 - p)); }
METRONOME_DEVICE bool is_near(double size) { return size <= 5; }
METRONOME_DEVICE double inverse_normal_near(double size) {
  const double r = size - 1.6;
  return horner(r, 7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
                1.27045825245236838258e+0, 3.64784832476320460504e+0, 5.76949722146069140550e+0,
                4.63033784615654529590e+0, 1.42343711074968357734e+0) /
         horner(r, 1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
                1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e+0,
                2.05319162663775882187e+0, 1.0);
}
METRONOME_DEVICE double inverse_normal_far(double size) {
  const double r = size - 5;
  return horner(r, 2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
                2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e+0,
                5.46378491116411436990e+0, 6.65790464350110377720e+0) /
         horner(r, 2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
                7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
                5.99832206555887937690e-1, 1.0);
}

METRONOME_DEVICE double inverse_normal(double p) {
  const double q = p - 0.5;
  if (is_middle(q)) return inverse_normal_middle(q);
  const double size = tail_size(p);
  const double x = is_near(size) ? inverse_normal_near(size) : inverse_normal_far(size);
  return q < 0 ? -x : x;
}

/// A distribution, as all elements of a node have it.
struct DrawRule {
  DrawKind kind;
  double low, width;  ///< of the probabilities that a normal draws
};

/// The numbers that say how probable draws are, no more of them than draws, and their limits: both
/// ends are possible.
template <class T>
struct DrawLimits {
  const T* numbers = nullptr;
  Index count = 0;
  double least = 0, most = 0;

  /// True if there is a number i, outside of the limits.
  METRONOME_DEVICE bool refuse(Index i) const {
    return i < count && !(numbers[i] >= least && numbers[i] <= most);
  }
};

/// A number of (0, 1) as the distribution has it.
METRONOME_DEVICE double shaped(const DrawRule& rule, double u) {
  if (rule.kind == DrawKind::gumbel) return -exact_log(-exact_log(u));
  return inverse_normal(fma_of(rule.width, u, rule.low));
}

/// The elements that a block of the stream makes: one word of four makes an f32, two make an f64.
template <class T>
constexpr unsigned long long kDrawsABlock = 16 / sizeof(T);

/// The bits of a block's element `at`, and what they say: `draw` in [0, 1), `open_draw` in (0, 1).
METRONOME_DEVICE unsigned long long bits_of(const PhiloxWords& words, Index at, float*) {
  return words[at];
}
METRONOME_DEVICE unsigned long long bits_of(const PhiloxWords& words, Index at, double*) {
  return static_cast<unsigned long long>(words[2 * at]) << 32 | words[2 * at + 1];
}
METRONOME_DEVICE float draw(unsigned long long bits, float*) {
  return uniform(static_cast<unsigned>(bits));
}
METRONOME_DEVICE double draw(unsigned long long bits, double*) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}
METRONOME_DEVICE double open_draw(unsigned long long bits, float*) {
  return fma_of(static_cast<double>(static_cast<unsigned>(bits)), 0x1p-32, 0x1p-33);
}
METRONOME_DEVICE double open_draw(unsigned long long bits, double*) {
  return fma_of(static_cast<double>(bits >> 12), 0x1p-52, 0x1p-53);
}

/// Element n of the stream.
template <class T>
METRONOME_DEVICE T drawn(const DrawRule& rule, unsigned long long seed, unsigned long long draws,
                         unsigned long long key, unsigned long long n, T* type) {
  const PhiloxWords words = philox(seed, draws, key, n / kDrawsABlock<T>);
  const unsigned long long bits = bits_of(words, static_cast<Index>(n % kDrawsABlock<T>), type);
  if (rule.kind == DrawKind::uniform) return draw(bits, type);
  return static_cast<T>(shaped(rule, open_draw(bits, type)));
}

}  // namespace metronome::cuda
