// The rows of the elementwise table as mathematics: values and gradients in a wider type.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "ops/elementwise/elementwise.h"

namespace metronome {

/// One row: its value at (x, y), and g times its derivatives by x and by y.
template <class R>
struct ExactRow {
  Function function;
  R (*value)(R x, R y, R a, R b);
  R (*by_x)(R g, R x, R y, R a, R b) = nullptr;  ///< null: no gradient
  R (*by_y)(R g, R x, R y, R a, R b) = nullptr;
  double a = 0, b = 0;
  double steep = 0;  ///< by_x has a root: its errors are measured at g * steep there

  int operands() const { return row_of(function).operands; }
  std::string name() const {
    std::string text(row_of(function).name);
    if (row_of(function).numbers > 0) text += fmt::format(" {}", a);
    return text;
  }
};

namespace exact {

template <class R>
R larger(R x, R y) {
  return std::isnan(x) || std::isnan(y) ? R(NAN) : x > y ? x : y;
}
template <class R>
R below(R x) {  // the normal distribution function
  return std::erfc(-x * std::sqrt(R(0.5))) / 2;
}
template <class R>
R erf_slope(R x) {
  return 2 / std::sqrt(std::acos(R(-1))) * std::exp(-x * x);
}
template <class R>
R angle_slope(R x, R y) {  // of the angle of (x, y), by y
  return x == 0 && y == 0 ? 0 : x / (x * x + y * y);
}
template <class R>
R sigmoid(R x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
template <class R>
R gelu_slope(R x) {
  if (std::isinf(x)) return x > 0 ? 1 : 0;
  return below(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::acos(R(-1)));
}
template <class R>
R silu_slope(R x) {
  if (std::isinf(x)) return x > 0 ? 1 : 0;
  return sigmoid(x) * (1 + x * sigmoid(-x));
}

}  // namespace exact

#define VALUE(formula) \
  [](R x, [[maybe_unused]] R y, [[maybe_unused]] R a, [[maybe_unused]] R b) -> R { return formula; }
#define SLOPE(formula)                                                                       \
  []([[maybe_unused]] R g, [[maybe_unused]] R x, [[maybe_unused]] R y, [[maybe_unused]] R a, \
     [[maybe_unused]] R b) -> R { return formula; }

/// All rows that have a gradient. At a kink the gradients are libtorch's: 0 at that of abs and
/// relu, half to each of two equal ones. That of an angle is 0 at the origin.
template <class R>
std::vector<ExactRow<R>> exact_rows() {
  using enum Function;
  using namespace exact;
  return {
      {add, VALUE(x + y), SLOPE(g), SLOPE(g)},
      {sub, VALUE(x - y), SLOPE(g), SLOPE(-g)},
      {mul, VALUE(x * y), SLOPE(g * y), SLOPE(g * x)},
      {div, VALUE(x / y), SLOPE(g / y), SLOPE(-g * (x / y / y))},
      {sign, VALUE(R(x > 0) - R(x < 0))},
      {neg, VALUE(-x), SLOPE(-g)},
      {abs, VALUE(std::abs(x)),
       SLOPE(x > 0   ? g
             : x < 0 ? -g
                     : g * 0)},
      {minimum, VALUE(-larger(-x, -y)),
       SLOPE(x > y    ? 0
             : x == y ? g / 2
                      : g),
       SLOPE(y > x    ? 0
             : x == y ? g / 2
                      : g)},
      {maximum, VALUE(larger(x, y)),
       SLOPE(x < y    ? 0
             : x == y ? g / 2
                      : g),
       SLOPE(y < x    ? 0
             : x == y ? g / 2
                      : g)},
      {clamp,
       VALUE(x < a   ? a
             : x > b ? b
                     : x),
       SLOPE(x >= a && x <= b ? g : 0), nullptr, -0.5, 2},
      {square, VALUE(x * x), SLOPE(g * 2 * x)},
      {sqrt, VALUE(std::sqrt(x)), SLOPE(g / (2 * std::sqrt(x)))},
      {rsqrt, VALUE(1 / std::sqrt(x)), SLOPE(-g / 2 * std::pow(1 / std::sqrt(x), R(3)))},
      {reciprocal, VALUE(1 / x), SLOPE(-g * (1 / x) * (1 / x))},
      {exp, VALUE(std::exp(x)), SLOPE(g * std::exp(x))},
      {log, VALUE(std::log(x)), SLOPE(g / x)},
      {expm1, VALUE(std::expm1(x)), SLOPE(g * std::exp(x))},
      {log1p, VALUE(std::log1p(x)), SLOPE(g / (1 + x))},
      {floor, VALUE(std::floor(x))},
      {ceil, VALUE(std::ceil(x))},
      {round, VALUE(std::nearbyint(x))},
      {trunc, VALUE(std::trunc(x))},
      // Its gradient by y is flat between steps: tests/ops/kernels/conformance_test.cc compares it.
      {fmod, VALUE(std::fmod(x, y))},
      {sin, VALUE(std::sin(x)), SLOPE(g * std::cos(x))},
      {cos, VALUE(std::cos(x)), SLOPE(-g * std::sin(x))},
      {asin, VALUE(std::asin(x)), SLOPE(g / std::sqrt((1 - x) * (1 + x)))},
      {acos, VALUE(std::acos(x)), SLOPE(-g / std::sqrt((1 - x) * (1 + x)))},
      {atan, VALUE(std::atan(x)), SLOPE(g / (x * x + 1))},
      {atan2, VALUE(std::atan2(x, y)), SLOPE(g * exact::angle_slope(y, x)),
       SLOPE(-g * exact::angle_slope(x, y))},
      {erf, VALUE(std::erf(x)), SLOPE(g * exact::erf_slope(x))},
      {erfc, VALUE(std::erfc(x)), SLOPE(-g * exact::erf_slope(x))},
      {pow, VALUE(std::pow(x, y)), SLOPE(y == 0 ? 0 : g * (y * std::pow(x, y - 1))),
       SLOPE((x == 0 && y >= 0) || (std::isinf(x) && x > 0 && y < 0)
                 ? g * 0
                 : g * (std::pow(x, y) * std::log(x)))},
      {pow_scalar, VALUE(std::pow(x, a)), SLOPE(g * (a * std::pow(x, a - 1))), nullptr, 3},
      {pow_scalar, VALUE(std::pow(x, a)), SLOPE(g * (a * std::pow(x, a - 1))), nullptr, 0.5},
      {pow_scalar, VALUE(std::pow(x, a)), SLOPE(g * (a * std::pow(x, a - 1))), nullptr, -1},
      {pow_scalar, VALUE(std::pow(x, a)), SLOPE(g * (a * std::pow(x, a - 1))), nullptr, 1.75},
      {pow_scalar, VALUE(std::pow(x, a)), SLOPE(0), nullptr, 0},
      {relu, VALUE(larger(x, R(0))), SLOPE(x <= 0 ? 0 : g)},
      {tanh, VALUE(std::tanh(x)), SLOPE(g * (1 / std::cosh(x) / std::cosh(x)))},
      {sigmoid, VALUE(exact::sigmoid(x)), SLOPE(g * (exact::sigmoid(x) * exact::sigmoid(-x)))},
      {gelu, VALUE(std::isinf(x) && x < 0 ? 0 : x * below(x)), SLOPE(g * exact::gelu_slope(x)),
       nullptr, 0, 0, 0x1p-6},
      {silu, VALUE(std::isinf(x) && x < 0 ? 0 : x * exact::sigmoid(x)),
       SLOPE(g * exact::silu_slope(x)), nullptr, 0, 0, 0x1p-6},
      {softsign, VALUE(x / (std::abs(x) + 1)), SLOPE(g / (std::abs(x) + 1) / (std::abs(x) + 1))},
      {bce_with_logits,
       VALUE((y == 1 ? 0 : (1 - y) * larger(x, R(0))) + (y == 0 ? 0 : y * larger(-x, R(0))) +
             std::log1p(std::exp(-std::abs(x)))),
       SLOPE(g * ((1 - y) * exact::sigmoid(x) - y * exact::sigmoid(-x))), SLOPE(-g * x), 0, 0, 1},
      {softplus, VALUE(larger(x, R(0)) + std::log1p(std::exp(-std::abs(x)))),
       SLOPE(g * exact::sigmoid(x))},
  };
}

#undef VALUE
#undef SLOPE

}  // namespace metronome
