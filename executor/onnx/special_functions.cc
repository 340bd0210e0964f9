#include "executor/onnx/special_functions.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace metronome::onnx {
namespace {

Term absolute(const Term& x) { return call("Abs", {x}); }

/// The sum of factors[i] x^i (Horner).
Term polynomial(const Term& x, std::span<const double> factors) {
  Term sum = number_like(x, factors.back());
  for (std::size_t i = factors.size() - 1; i-- > 0;) sum = sum * x + factors[i];
  return sum;
}

/// erfc(x) exp(x^2) over t = (x - 3) / (x + 3), which maps x from 0 on to [-1, 1): interpolated at
/// Chebyshev's nodes with 60 digits. The error is below 4e-16 of erfc(0).
constexpr double kScaledErfc[] = {
    0.17900115118138996,     -0.32623356004303716,    0.24560380171233087,
    -0.15011593650078556,    0.07166583719798003,     -0.02439249931841236,
    0.004269136332776778,    0.0007077464351629208,   -0.0005970619475320982,
    4.5255329128324956e-05,  6.405654666453751e-05,   -1.2860651127268455e-05,
    -7.978087389531172e-06,  2.120505663081288e-06,   1.2523612999238404e-06,
    -2.9496193984576593e-07, -2.3439521601527636e-07, 2.9794977630346318e-08,
    4.6582010029434835e-08,  9.437541846075456e-11,   -8.647719443510971e-09,
    -8.103959560934854e-10,  1.2682780948140922e-09,  1.26390768337343e-10,
    -1.0487311759399175e-10};

/// erf(x) near 0, by its series: 2 / sqrt(pi) times the sum of (-1)^i x^(2i + 1) / (i! (2i + 1)).
Term erf_near_0(const Term& x) {
  std::vector<double> factors;
  double factorial = 1;
  for (int i = 0; i < 14; ++i) {
    factors.push_back((i % 2 == 0 ? 1 : -1) * 2 * std::numbers::inv_sqrtpi /
                      (factorial * (2 * i + 1)));
    factorial *= i + 1;
  }
  return x * polynomial(x * x, factors);
}

/// The angle of |x| <= tan(pi / 8), by its series.
Term atan_near_0(const Term& x) {
  std::vector<double> factors;
  for (int i = 0; i < 22; ++i) factors.push_back((i % 2 == 0 ? 1.0 : -1.0) / (2 * i + 1));
  return x * polynomial(x * x, factors);
}

Term atan_of_f64(const Term& x) {
  constexpr double kPi = std::numbers::pi;
  const Term size = absolute(x);
  const Term folded = select(size > 1, call("Reciprocal", {size}), size);  // 0 to 1
  const Term is_steep = folded > std::numbers::sqrt2 - 1;
  const Term turned = select(is_steep, (folded - 1) / (folded + 1), folded);
  const Term near_0 = atan_near_0(turned);
  const Term angle = select(is_steep, near_0 + kPi / 4, near_0);
  const Term of_size = select(size > 1, kPi / 2 - angle, angle);
  return select(x < 0, -of_size, of_size);
}

/// True for numbers below 0, and for -0.
Term has_minus(const Term& x) { return ask("Or", {x < 0, call("Reciprocal", {x}) < 0}); }

}  // namespace

Term log1p(const Term& x) {
  // The rounding of 1 + x is made good (Kahan).
  const Term u = x + 1;
  const Term exact = call("Log", {u}) * (x / (u - 1));
  return select(u == 1, x, select(x > 1e4, call("Log", {u}), exact));
}

Term expm1(const Term& x) { return call("Tanh", {x * 0.5}) * (call("Exp", {x}) + 1); }

Term erfc(const Term& x) {
  const Term wide = cast(x, f64);
  const Term size = call("Min", {absolute(wide), number_like(wide, 30)});  // 0 from there on
  const Term scaled = polynomial((size - 3) / (size + 3), kScaledErfc);
  const Term tail = call("Exp", {-(size * size)}) * scaled;
  return cast(select(wide < 0, 2 - tail, tail), x.element);
}

Term erf(const Term& x) {
  if (x.element == f32) return call("Erf", {x});
  return select(absolute(x) < 0.5, erf_near_0(x), 1 - erfc(x));
}

Term atan(const Term& x) { return x.element == f32 ? call("Atan", {x}) : atan_of_f64(x); }

Term asin(const Term& x) {
  if (x.element == f32) return call("Asin", {x});
  return atan(x / call("Sqrt", {(1 - x) * (x + 1)}));
}

Term acos(const Term& x) {
  if (x.element == f32) return call("Acos", {x});
  return atan(call("Sqrt", {(1 - x) / (x + 1)})) * 2;
}

Term atan2(const Term& y, const Term& x) {
  // Two infinities are as far as each other.
  const Term both_far = ask("And", {ask("IsInf", {x}), ask("IsInf", {y})});
  const Term near_y = select(both_far, call("Sign", {y}), y);
  const Term near_x = select(both_far, call("Sign", {x}), x);
  const Term steep = atan(near_y / absolute(near_x));
  const Term to_the_right = select(near_y == 0, near_y, steep);  // also at the origin
  const Term pi = number_like(x, std::numbers::pi);
  const Term to_the_left = select(has_minus(y), -pi, pi) - to_the_right;
  return select(is_nan(x), x, select(has_minus(x), to_the_left, to_the_right));
}

}  // namespace metronome::onnx
