// Elementwise functions of ATen, in the words of ours. Operands are cast to the element of the
// result first, as ATen's promotion has it; of comparisons to one that holds both.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <string>
#include <utility>

#include "executor/import/aten/call.h"
#include "ops/language/activations.h"
#include "ops/language/derived.h"
#include "ops/language/indexing.h"

namespace metronome::pt2 {

Value log_sum(Operand a, Operand b) {
  // Two equal infinities have no distance that is a number.
  const Value apart = where(equal(a, b), {0, a.line}, {abs(a - b, a.line), a.line}, a.line);
  return maximum(a, b) + log1p(exp(-Operand(apart, a.line), a.line), a.line);
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class F>
void add_unary(Table& table, const char* name, F function) {
  table[std::string("aten.") + name] = [function](const Call& c) {
    return Values{function(c.promoted("self"), c.line())};
  };
}

template <class F>
void add_binary(Table& table, const char* name, F function) {
  table[std::string("aten.") + name] = [function](const Call& c) {
    return Values{function(c.promoted_operand("self"), c.promoted_operand("other"))};
  };
}

/// Both operands of a comparison in one element type: that of the floating one, or f64 beside a
/// number that is not whole.
std::pair<Operand, Operand> compared(const Call& c) {
  Operand a = c.operand("self"), b = c.operand("other");
  const auto cast = [&](Operand& x, Element to) {
    if (!x.number && x.value.element() != to) x = Operand(x.value.cast(to, c.line()), c.line());
  };
  const Element left = a.number ? b.value.element() : a.value.element();
  const Element right = b.number ? left : b.value.element();
  const double number = a.number.value_or(b.number.value_or(0));
  Element both = left;
  if (left != right) both = is_floating(left) ? left : is_floating(right) ? right : i64;
  const bool whole = std::floor(number) == number;
  if (!is_floating(both) && (a.number || b.number)) both = whole && both != bool_ ? both : f64;
  cast(a, both);
  cast(b, both);
  return {a, b};
}

template <class F>
void add_comparison(Table& table, const char* name, F function) {
  table[std::string("aten.") + name] = [function](const Call& c) {
    const auto [a, b] = compared(c);
    return Values{function(a, b)};
  };
}

Operand times(const Operand& x, double factor, Line line) {
  if (factor == 1) return x;
  if (x.number) return {*x.number * factor, line};
  return {x.value * Operand(factor, line), line};
}

// ---- whole numbers -----------------------------------------------------------------------------

bool is_whole(const Call& c) { return !is_floating(c.output().element); }

/// An operand of a division of whole numbers, in f64, which holds those of magnitude 2^53 at most.
Operand exact(const Call& c, const char* name) {
  const Operand x = c.promoted_operand(name);
  if (x.number) return x;
  const Value real = x.value.cast(f64, c.line());
  if (x.value.element() != i64) return {real, c.line()};
  const Value large = abs(real, c.line()) > Operand(0x1p53, c.line());
  const Value kept =
      where(reported(large, "beyond_2_53", c.line()), {0, c.line()}, {real, c.line()}, c.line());
  return {kept, c.line()};
}

/// The same of a divisor, which is not 0: PyTorch throws.
Operand exact_divisor(const Call& c) {
  const Operand y = exact(c, "other");
  if (y.number && *y.number == 0) throw Unsupported{"it divides by 0"};
  if (y.number) return y;
  const Value zero = reported(equal(y, {0, c.line()}), "division_by_zero", c.line());
  return {where(zero, {1, c.line()}, y, c.line()), c.line()};
}

/// A division, or what it leaves, of whole numbers or others.
template <class F>
Value divided(const Call& c, F function) {
  if (!is_whole(c)) return function(c.promoted_operand("self"), c.promoted_operand("other"));
  const Operand x = exact(c, "self"), y = exact_divisor(c);
  if (x.number) {
    const Value all = make_constant(c.emitter(), *x.number, {f64, c.output().shape}, c.line());
    return function({all, c.line()}, y).cast(c.output().element, c.line());
  }
  return function(x, y).cast(c.output().element, c.line());
}

template <class F>
void add_division(Table& table, const char* name, F function) {
  table[std::string("aten.") + name] = [function](const Call& c) {
    return Values{divided(c, function)};
  };
}

/// x / y toward zero: what fmod leaves out is a whole multiple of y.
Value whole_quotient(Operand x, Operand y) { return (x - fmod(x, y)) / y; }

/// A product of so many factors x, which wraps around as PyTorch's does.
Value whole_power(const Call& c) {
  const Operand x = c.operand("self"), exponent = c.operand("exponent");
  if (x.number || !exponent.number) throw Unsupported{"its exponent is a tensor of whole numbers"};
  auto left = static_cast<std::int64_t>(*exponent.number);
  if (left < 0) throw Unsupported{fmt::format("its exponent is {}, of whole numbers", left)};
  Value power = c.promoted("self");
  std::optional<Value> product;
  for (; left > 0; left /= 2) {
    if (left % 2 == 1) product = product ? *product * power : power;
    if (left > 1) power = power * power;
  }
  return product ? *product : make_constant(c.emitter(), 1.0, c.output(), c.line());
}

/// A function of bools, for ops that take the bits of other types, too.
template <class F>
void add_bits(Table& table, const char* name, F function) {
  table[std::string("aten.") + name] = [function](const Call& c) {
    if (c.output().element != bool_) {
      throw Unsupported{fmt::format("it takes bits of {}", name_of(c.output().element))};
    }
    return Values{function(c.promoted_operand("self"), c.promoted_operand("other"))};
  };
}

/// Whole numbers stay what they are.
template <class F>
void add_rounding(Table& table, const char* name, F function) {
  table[std::string("aten.") + name] = [function](const Call& c) {
    const Value x = c.promoted("self");
    return Values{is_whole(c) ? x : function(x, c.line())};
  };
}

Values divide(const Call& c) {
  const std::string mode = c.text("rounding_mode", "");
  if (mode == "floor") return {divided(c, floor_divide)};
  if (mode == "trunc" && is_whole(c)) return {divided(c, whole_quotient)};
  const Operand a = c.promoted_operand("self"), b = c.promoted_operand("other");
  const Value quotient = a / b;
  return {mode == "trunc" ? trunc(quotient, c.line()) : quotient};
}

Values clamp_between(const Call& c) {
  Value x = c.promoted("self");
  for (const char* name : {"min", "max"}) {
    if (!c.has(name)) continue;
    const Operand bound = c.promoted_operand(name);
    x = name == std::string("min") ? maximum({x, c.line()}, bound) : minimum({x, c.line()}, bound);
  }
  return {x};
}

/// Beyond the threshold, which is high enough by default, it is x itself.
Values softplus_of(const Call& c) {
  const double beta = c.number("beta", 1), threshold = c.number("threshold", 20);
  const Value x = c.promoted("self"), scaled = beta == 1 ? x : x * Operand(beta, c.line());
  Value y = softplus(scaled, c.line());
  if (beta != 1) y = y * Operand(1 / beta, c.line());
  if (threshold >= 20) return {y};
  return {where(scaled > Operand(threshold, c.line()), x, y, c.line())};
}

Values elu_of(const Call& c) {
  if (c.number("input_scale", 1) != 1) throw Unsupported{"its input_scale is not 1"};
  const Value y = elu(c.promoted("self"), c.number("alpha", 1), c.line());
  return {times({y, c.line()}, c.number("scale", 1), c.line()).value};
}

/// A value in the element and shape of the output, wherever it came from.
Values as_output(const Call& c, const char* name) {
  const Value x = c.promoted(name);
  return {x.shape() == c.output().shape ? x : expand(x, c.output().shape, c.line())};
}

Values filled(const Call& c, double number) {
  return {make_constant(c.emitter(), number, c.output(), c.line())};
}

Values series(const Call& c) {
  const double start = c.number("start", 0), step = c.number("step", 1);
  require_few(c.output().numel());
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < c.output().numel(); ++i) {
    numbers.push_back(start + step * static_cast<double>(i));
  }
  return {make_constant(c.emitter(), numbers, c.output(), c.line())};
}

Values added_product(const Call& c, bool divides) {
  const Value a = c.promoted("tensor1"), b = c.promoted("tensor2");
  const Value product = divides ? a / b : a * b;
  return {c.promoted("self") + times({product, c.line()}, c.number("value", 1), c.line())};
}

/// Whether two numbers lie within a bound of each other, or are one infinity.
Values is_close(const Call& c) {
  const Line line = c.line();
  const auto [a, b] = compared(c);
  const auto near = [&](const Operand& x, const Operand& y) {
    const Value bound = abs(y.value, line) * Operand(c.number("rtol", 1e-5), line) +
                        Operand(c.number("atol", 1e-8), line);
    const Value finite = abs(y.value, line) < Operand(kInfinity, line);
    return logical_and(finite, abs(x - y, line) <= bound);
  };
  if (!is_floating(a.value.element())) throw Unsupported{"its operands are whole numbers"};
  Value found = logical_or(equal(a, b), near(a, b));
  if (c.flag("equal_nan", false)) {
    found = logical_or(found, logical_and(not_equal(a, a), not_equal(b, b)));
  }
  return {found};
}

/// Numbers in place of NaN and the infinities.
Values nan_to_number(const Call& c) {
  const Line line = c.line();
  const Value x = c.value("self");
  if (!is_floating(x.element())) return {x};
  const double most =
      x.element() == f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  const auto with = [&](const Value& where_so, const char* name, double otherwise, Value y) {
    return where(where_so, {c.number(name, otherwise), line}, {y, line}, line);
  };
  const Operand self(x, line);
  Value y = with(not_equal(self, self), "nan", 0, x);
  y = with(equal(self, {kInfinity, line}), "posinf", most, y);
  return {with(equal(self, {-kInfinity, line}), "neginf", -most, y)};
}

/// Formulas of the functions above.
void add_formulas(Table& t) {
  const auto half = [](Value x, Line line) { return x * Operand(0.5, line); };
  add_unary(t, "sinh", [=](Value x, Line line) {
    return half(exp(x, line) - exp(-Operand(x, line), line), line);
  });
  add_unary(t, "cosh", [=](Value x, Line line) {
    return half(exp(x, line) + exp(-Operand(x, line), line), line);
  });
  add_unary(t, "frac", [](Value x, Line line) { return x - trunc(x, line); });
  add_binary(t, "hypot", [](Operand a, Operand b) { return sqrt(a * a + b * b, a.line); });
  add_binary(t, "logaddexp", log_sum);
  add_binary(t, "logaddexp2", [](Operand a, Operand b) {
    const Operand scale(std::numbers::ln2, a.line);
    return log_sum(a * scale, b * scale) / scale;
  });
  add_binary(t, "xlogy", [](Operand a, Operand b) {
    const Value product =
        a * log(b.number ? full_like(a.value, *b.number, a.line) : b.value, a.line);
    return where(equal(a, {0, a.line}), where(not_equal(b, b), b, Operand(0, a.line), a.line),
                 product, a.line);
  });
  add_binary(t, "ldexp", [](Operand a, Operand b) { return a * pow({2, a.line}, b); });
  // The one that is a number, where the other is none.
  add_binary(t, "fmin", [](Operand a, Operand b) {
    return where(not_equal(a, a), b, where(not_equal(b, b), a, minimum(a, b), a.line), a.line);
  });
  add_binary(t, "fmax", [](Operand a, Operand b) {
    return where(not_equal(a, a), b, where(not_equal(b, b), a, maximum(a, b), a.line), a.line);
  });
  add_binary(t, "float_power", [](Operand a, Operand b) { return pow(a, b); });
  add_unary(t, "asinh", [](Value x, Line line) {
    const Value size = abs(x, line), square = size * size;
    const Value root = sqrt(square + Operand(1, line), line);
    return sign(x, line) * log1p(size + square / (root + Operand(1, line)), line);
  });
  add_unary(t, "acosh", [](Value x, Line line) {
    return log(x + sqrt((x - Operand(1, line)) * (x + Operand(1, line)), line), line);
  });
  add_unary(t, "atanh", [=](Value x, Line line) {
    return half(log1p(x, line) - log1p(-Operand(x, line), line), line);
  });
  add_unary(t, "sinc", [](Value x, Line line) {
    const Value angle = x * Operand(std::numbers::pi, line);
    const Value is_0 = equal({x, line}, {0, line});
    const Value nonzero = where(is_0, {1, line}, {angle, line}, line);
    return where(is_0, {1, line}, {sin(nonzero, line) / nonzero, line}, line);
  });
  add_unary(t, "deg2rad",
            [](Value x, Line line) { return x * Operand(std::numbers::pi / 180, line); });
  add_unary(t, "rad2deg",
            [](Value x, Line line) { return x * Operand(180 / std::numbers::pi, line); });
  add_binary(t, "copysign", [](Operand a, Operand b) {
    const Value size = abs(a.value, a.line);
    const Value sign_of = b.number ? full_like(size, *b.number, b.line) : b.value;
    // The sign of a zero shows in the angle of a point to its left.
    const Value negative = atan2(sign_of, Operand(-1, b.line)) < Operand(0, b.line);
    return where(negative, -Operand(size, a.line), size, a.line);
  });
  t["aten.logit"] = [](const Call& c) {
    const Line line = c.line();
    Value x = c.promoted("self");
    if (const auto eps = c.optional_number("eps")) x = clamp(x, *eps, 1 - *eps, line);
    return Values{log(x / (Operand(1, line) - x), line)};
  };
  t["aten.isinf"] = [](const Call& c) {
    return Values{equal({abs(c.value("self"), c.line()), c.line()}, {kInfinity, c.line()})};
  };
  t["aten.isposinf"] = [](const Call& c) {
    return Values{equal({c.value("self"), c.line()}, {kInfinity, c.line()})};
  };
  t["aten.isneginf"] = [](const Call& c) {
    return Values{equal({c.value("self"), c.line()}, {-kInfinity, c.line()})};
  };
  t["aten.isreal"] = [](const Call& c) { return filled(c, 1); };
  t["aten.heaviside"] = [](const Call& c) {
    const Line line = c.line();
    const Operand x = c.promoted_operand("self"), zero(0, line);
    const Value step = where(x < zero, zero, Operand(1, line), line);
    return Values{where(equal(x, zero), c.promoted_operand("values"), Operand(step, line), line)};
  };
  add_binary(t, "logical_xor", not_equal);
  t["aten.addcmul"] = [](const Call& c) { return added_product(c, false); };
  t["aten.addcdiv"] = [](const Call& c) { return added_product(c, true); };
  t["aten.lerp"] = [](const Call& c) {
    const Value start = c.promoted("self"), end = c.promoted("end");
    return Values{start + (end - start) * c.promoted_operand("weight")};
  };
  t["aten.threshold"] = [](const Call& c) {
    const Value x = c.value("self");
    return Values{where(x > Operand(c.number("threshold"), c.line()), {x, c.line()},
                        {c.number("value"), c.line()}, c.line())};
  };
  t["aten.celu"] = [](const Call& c) {
    const double alpha = c.number("alpha", 1);
    const Value x = c.value("self"), scaled = x * Operand(1 / alpha, c.line());
    return Values{
        maximum({x, c.line()}, {0, c.line()}) +
        minimum({expm1(scaled, c.line()) * Operand(alpha, c.line()), c.line()}, {0, c.line()})};
  };
  for (const bool hard : {true, false}) {
    t[hard ? "aten.hardshrink" : "aten.softshrink"] = [hard](const Call& c) {
      const double edge = c.number("lambd", 0.5);
      const Value x = c.value("self");
      const Value beyond = abs(x, c.line()) > Operand(edge, c.line());
      const Value kept = hard ? x : x - sign(x, c.line()) * Operand(edge, c.line());
      return Values{where(beyond, {kept, c.line()}, {0, c.line()}, c.line())};
    };
  }
  t["aten.isclose"] = is_close;
  t["aten.nan_to_num"] = nan_to_number;
  t["aten.isfinite"] = [](const Call& c) {
    return Values{abs(c.value("self"), c.line()) < Operand(kInfinity, c.line())};
  };
}

void add_functions(Table& t) {
  add_unary(t, "abs", abs);
  add_unary(t, "sign", sign);
  add_unary(t, "exp", exp);
  add_unary(t, "log", log);
  add_unary(t, "expm1", expm1);
  add_unary(t, "log1p", log1p);
  add_rounding(t, "floor", floor);
  add_rounding(t, "ceil", ceil);
  add_rounding(t, "trunc", trunc);
  add_unary(t, "sin", sin);
  add_unary(t, "cos", cos);
  add_unary(t, "asin", asin);
  add_unary(t, "acos", acos);
  add_unary(t, "atan", atan);
  add_unary(t, "erf", erf);
  add_unary(t, "erfc", erfc);
  add_unary(t, "sqrt", sqrt);
  add_unary(t, "rsqrt", rsqrt);
  add_unary(t, "reciprocal", reciprocal);
  add_unary(t, "square", square);
  add_unary(t, "tanh", tanh);
  add_unary(t, "sigmoid", sigmoid);
  add_unary(t, "relu", relu);
  add_unary(t, "silu", silu);
  add_unary(t, "selu", selu);
  add_unary(t, "relu6", relu6);
  add_unary(t, "mish", mish);
  add_unary(t, "hardswish", hardswish);
  add_unary(t, "hardsigmoid", hardsigmoid);
  add_unary(t, "log_sigmoid", logsigmoid);
  add_unary(t, "logical_not", logical_not);
  t["aten.bitwise_not"] = [](const Call& c) {
    const Value x = c.value("self");  // of whole numbers ~x = -1 - x
    return Values{x.element() == bool_ ? logical_not(x, c.line()) : Operand(-1, c.line()) - x};
  };
  add_unary(t, "neg", [](Value x, Line line) { return -Operand(x, line); });
  add_unary(t, "log2",
            [](Value x, Line line) { return log(x, line) * Operand(std::numbers::log2e, line); });
  add_unary(t, "log10",
            [](Value x, Line line) { return log(x, line) * Operand(std::numbers::log10e, line); });
  add_unary(t, "exp2",
            [](Value x, Line line) { return exp(x * Operand(std::numbers::ln2, line), line); });
  add_unary(t, "tan", [](Value x, Line line) { return sin(x, line) / cos(x, line); });
  t["aten.gelu"] = [](const Call& c) {
    const Value x = c.promoted("self");
    return Values{c.text("approximate", "none") == "tanh" ? gelu_tanh(x, c.line())
                                                          : gelu(x, c.line())};
  };
  t["aten.softplus"] = softplus_of;
  t["aten.elu"] = elu_of;
  t["aten.leaky_relu"] = [](const Call& c) {
    return Values{leaky_relu(c.promoted("self"), c.number("negative_slope", 0.01), c.line())};
  };
  t["aten.hardtanh"] = [](const Call& c) {
    return Values{
        hardtanh(c.promoted("self"), c.number("min_val", -1), c.number("max_val", 1), c.line())};
  };
  t["aten.prelu"] = [](const Call& c) {
    return Values{prelu(c.value("self"), c.value("weight"), c.line())};
  };
  t["aten.glu"] = [](const Call& c) {
    return Values{glu(c.value("self"), c.integer("dim", -1), c.line())};
  };
  t["aten.round"] = [](const Call& c) {
    const Value x = c.promoted("self");
    const std::int64_t decimals = c.integer("decimals", 0);
    if (is_whole(c)) return Values{x};
    if (decimals == 0) return Values{round(x, c.line())};
    const Operand scale(std::pow(10, std::abs(decimals)), c.line());
    return Values{decimals > 0 ? round(x * scale, c.line()) / scale
                               : round(x / scale, c.line()) * scale};
  };
  t["aten.isnan"] = [](const Call& c) {
    const Operand x(c.value("self"), c.line());
    return Values{not_equal(x, x)};
  };
}

}  // namespace

void add_elementwise(Table& t) {
  add_functions(t);
  add_formulas(t);
  t["aten.add"] = [](const Call& c) {
    return Values{c.promoted_operand("self") +
                  times(c.promoted_operand("other"), c.number("alpha", 1), c.line())};
  };
  t["aten.sub"] = [](const Call& c) {
    return Values{c.promoted_operand("self") -
                  times(c.promoted_operand("other"), c.number("alpha", 1), c.line())};
  };
  t["aten.rsub"] = [](const Call& c) {
    return Values{c.promoted_operand("other") -
                  times(c.promoted_operand("self"), c.number("alpha", 1), c.line())};
  };
  add_binary(t, "mul", [](Operand a, Operand b) { return a * b; });
  t["aten.div"] = divide;
  t["aten.true_divide"] = divide;
  add_division(t, "floor_divide", floor_divide);
  add_division(t, "remainder", remainder);
  add_division(t, "fmod", fmod);
  add_binary(t, "atan2", atan2);
  add_binary(t, "minimum", minimum);
  add_binary(t, "maximum", maximum);
  add_binary(t, "logical_and", logical_and);
  add_binary(t, "logical_or", logical_or);
  for (const char* name : {"bitwise_and", "__and__"}) add_bits(t, name, logical_and);
  for (const char* name : {"bitwise_or", "__or__"}) add_bits(t, name, logical_or);
  for (const char* name : {"bitwise_xor", "__xor__"}) add_bits(t, name, not_equal);
  t["aten.pow"] = [](const Call& c) {
    if (is_whole(c)) return Values{whole_power(c)};
    return Values{pow(c.promoted_operand("self"), c.promoted_operand("exponent"))};
  };
  add_comparison(t, "eq", equal);
  add_comparison(t, "ne", not_equal);
  add_comparison(t, "lt", [](Operand a, Operand b) { return a < b; });
  add_comparison(t, "le", [](Operand a, Operand b) { return a <= b; });
  add_comparison(t, "gt", [](Operand a, Operand b) { return a > b; });
  add_comparison(t, "ge", [](Operand a, Operand b) { return a >= b; });
  t["aten.clamp"] = clamp_between;
  t["aten.clamp_min"] = clamp_between;
  t["aten.clamp_max"] = clamp_between;
  t["aten.where"] = [](const Call& c) {
    return Values{where(c.value("condition"), c.promoted_operand("self"),
                        c.promoted_operand("other"), c.line())};
  };
  t["aten.masked_fill"] = [](const Call& c) {
    return Values{
        masked_fill(c.value("self"), c.value("mask"), c.promoted_operand("value"), c.line())};
  };
  for (const char* name : {"to", "_to_copy", "type_as", "clone", "alias", "contiguous",
                           "lift_fresh_copy", "expand", "expand_as", "broadcast_to"}) {
    t[std::string("aten.") + name] = [](const Call& c) { return as_output(c, "self"); };
  }
  t["aten.copy"] = [](const Call& c) { return as_output(c, "src"); };
  t["aten.fill"] = [](const Call& c) {
    const Operand value = c.promoted_operand("value");
    if (value.number) return filled(c, *value.number);
    return Values{expand(value.value, c.output().shape, c.line())};
  };
  t["aten.broadcast_tensors"] = [](const Call& c) {
    Values all = c.values("tensors");
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].shape() != c.output(i).shape) {
        all[i] = expand(all[i], c.output(i).shape, c.line());
      }
    }
    return all;
  };
  t["aten.detach"] = [](const Call& c) { return Values{stop_gradient(c.value("self"), c.line())}; };
  // Zeros stand for empty tensors too, which nobody may read before they are written.
  for (const char* name : {"zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty",
                           "empty_strided", "new_empty_strided"}) {
    t[std::string("aten.") + name] = [](const Call& c) { return filled(c, 0); };
  }
  for (const char* name : {"ones", "ones_like", "new_ones"}) {
    t[std::string("aten.") + name] = [](const Call& c) { return filled(c, 1); };
  }
  for (const char* name : {"full", "full_like", "new_full"}) {
    t[std::string("aten.") + name] = [](const Call& c) {
      return filled(c, c.number("fill_value"));
    };
  }
  t["aten.zero"] = [](const Call& c) {
    const Value x = c.value("self");
    return Values{make_constant(c.emitter(), 0.0, x.type(), c.line())};
  };
  t["aten.scalar_tensor"] = [](const Call& c) { return filled(c, c.number("s")); };
  t["aten.arange"] = series;
  t["aten.linspace"] = [](const Call& c) {
    const double start = c.number("start"), end = c.number("end");
    require_few(c.integer("steps"));
    const auto steps = static_cast<double>(c.integer("steps"));
    std::vector<double> numbers;
    for (std::int64_t i = 0; i < c.integer("steps"); ++i) {
      const double share = steps > 1 ? static_cast<double>(i) / (steps - 1) : 0;
      numbers.push_back(start + share * (end - start));
    }
    return Values{make_constant(c.emitter(), numbers, c.output(), c.line())};
  };
  t["aten.eye"] = [](const Call& c) {
    const Type& type = c.output();
    c.sizes(2);
    require_few(type.numel());
    std::vector<double> numbers(static_cast<std::size_t>(type.numel()), 0);
    for (std::int64_t i = 0; i < std::min(type.shape[0], type.shape[1]); ++i) {
      numbers[static_cast<std::size_t>(i * type.shape[1] + i)] = 1;
    }
    return Values{make_constant(c.emitter(), numbers, type, c.line())};
  };
}

}  // namespace metronome::pt2
