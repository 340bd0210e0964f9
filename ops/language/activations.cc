// Each activation is a formula, checked and named by `compose`. `where` computes both of its
// branches, and the one not chosen may overflow. The formulas move x into a range in which both are
// finite, so that no infinity is multiplied by 0:
//
//   elu         where(x > 0, x, alpha expm1(near))            near: x, or 0 if x is above 0
//   mish        where(x > 50, x, near tanh(softplus(near)))   near: x in [-1000, 50]
//   gelu_tanh   max(x, -1000) sigmoid(2 u(near))              near: x in [-30, 30]
//
// Activations that end in constants, such as `relu6`, choose these by `where`, as a clamp would let
// a gradient through at both ends.
#include "ops/language/activations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/elementwise/elementwise.h"
#include "ops/expr/functions.h"
#include "ops/language/composed.h"
#include "ops/language/init.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

constexpr std::string_view kNames[] = {"selu",       "relu6",       "mish",
                                       "hardswish",  "hardsigmoid", "softsign",
                                       "logsigmoid", "gelu_tanh",   "tanhshrink"};

/// x inside (low, high); the ends outside, where the choice lets no gradient through.
Value between(Value x, double low, double high) {
  return where(x <= low, low, where(x >= high, high, x));
}

/// The branch that is not chosen sees 0, so what it makes of large numbers comes to nothing.
Value elu_of(Value x, double alpha) {
  const Value above = x > 0.0;
  return where(above, x, expm1(where(above, 0.0, x)) * alpha);
}

/// Below it exp(x) is 0 in f64 too: what is multiplied by that ends here, as -inf times 0 is no
/// number.
constexpr double kNothing = -1000;

Value hardsigmoid_of(Value x) {
  return where(x <= -3.0, 0.0, where(x >= 3.0, 1.0, (x + 3.0) / 6.0));
}

Value gelu_tanh_of(Value x) {
  constexpr double kTwice = 1.59576912160573071176;  // 2 sqrt(2 / pi)
  constexpr double kEnd = 30;  // sigmoid is 0 or 1 well before, and the cube overflows well behind
  const Value near = clamp(x, -kEnd, kEnd);
  return maximum(x, kNothing) * sigmoid((near + square(near) * near * 0.044715) * kTwice);
}

/// Above 50 it is x in f64 too.
Value mish_of(Value x) {
  constexpr double kEnd = 50;
  const Value near = clamp(x, kNothing, kEnd);
  return where(x > kEnd, x, near * tanh(softplus(near)));
}

/// The weights lie along the axis of channels.
Value prelu_of(Value x, Value weight) {
  Shape shape(static_cast<std::size_t>(std::max<std::int64_t>(x.rank() - 1, 1)), 1);
  shape[0] = weight.size(0);
  if (x.rank() == 0) shape.clear();
  const Value above = x > 0.0;
  return where(above, x, weight.reshape(shape) * where(above, 0.0, x));
}

Value formula(Activation::Kind kind, Value x) {
  switch (kind) {
    case Activation::Kind::selu:
      return elu_of(x, 1.67326324235437728482) * 1.05070098735548049342;
    case Activation::Kind::relu6:
      return between(x, 0, 6);
    case Activation::Kind::mish:
      return mish_of(x);
    case Activation::Kind::hardswish:
      return maximum(x, -3.0) * hardsigmoid_of(x);
    case Activation::Kind::hardsigmoid:
      return hardsigmoid_of(x);
    case Activation::Kind::softsign:
      return elementwise(Function::softsign, {x});
    case Activation::Kind::logsigmoid:
      return -softplus(-x);
    case Activation::Kind::gelu_tanh:
      return gelu_tanh_of(x);
    case Activation::Kind::tanhshrink:
      return x - tanh(x);
  }
  throw InternalError("an activation out of range");
}

void require_finite(std::string_view what, const Value& x, double number) {
  require(unless_finite(what, number));
  if (holds(x.element(), number)) return;
  throw Requirement{
      fmt::format("a number for {} that {} can hold, but {}", what, name_of(x.element()), number)};
}

/// Throws where x has no two halves along the axis.
void require_halves(const Value& x, std::int64_t axis) {
  require_floating(x.type());
  require_axis(x, axis);
  if (x.size(axis) % 2 == 0) return;
  throw Requirement{fmt::format("an even size along axis {}, but {}", axis, x.size(axis))};
}

/// One weight, or one for each channel.
void require_prelu_weight(const Value& x, const Value& weight) {
  require_floating(x.type());
  require_equal_elements(std::array{x.type(), weight.type()});
  const std::int64_t channels = x.rank() < 2 ? 1 : x.size(1);
  if (weight.rank() == 1 && (weight.size(0) == 1 || weight.size(0) == channels)) return;
  throw Requirement{fmt::format(
      "{}, but {}",
      channels == 1 ? "a weight of shape [1]"
                    : fmt::format("a weight of shape [1], or one for each channel, [{}]", channels),
      to_string(weight.shape()))};
}

/// Only along the last axis does a row depend on itself alone.
Layer of_axis(std::int64_t axis, Layer layer) {
  return axis == -1 ? rowwise(std::move(layer)) : layer;
}

}  // namespace

Value Activation::operator()(Value x, Line line) const {
  return compose(
      kNames[static_cast<std::size_t>(kind)], {x}, line, [&] { require_floating(x.type()); },
      [&] { return formula(kind, x); });
}

Value elu(Value x, double alpha, Line line) {
  const auto check = [&] {
    require_floating(x.type());
    require_finite("alpha", x, alpha);
  };
  return compose("elu", {x}, line, check, [&] { return elu_of(x, alpha); });
}

Layer elu(double alpha) {
  return rowwise([=](Value x, Line line) { return elu(x, alpha, line); });
}

Value leaky_relu(Value x, double slope, Line line) {
  const auto check = [&] {
    require_floating(x.type());
    require_finite("slope", x, slope);
  };
  return compose("leaky_relu", {x}, line, check, [&] { return where(x > 0.0, x, x * slope); });
}

Layer leaky_relu(double slope) {
  return rowwise([=](Value x, Line line) { return leaky_relu(x, slope, line); });
}

Value hardtanh(Value x, double low, double high, Line line) {
  const auto check = [&] {
    require_floating(x.type());
    require_finite("lower bound", x, low);
    require_finite("upper bound", x, high);
    if (low < high) return;
    throw Requirement{
        fmt::format("a lower bound that is below the upper one, but {} and {}", low, high)};
  };
  return compose("hardtanh", {x}, line, check, [&] { return between(x, low, high); });
}

Layer hardtanh(double low, double high) {
  return rowwise([=](Value x, Line line) { return hardtanh(x, low, high, line); });
}

Value prelu(Value x, Value weight, Line line) {
  return compose(
      "prelu", {x, weight}, line, [&] { require_prelu_weight(x, weight); },
      [&] { return prelu_of(x, weight); });
}

Layer prelu(PreluOptions options) {
  Layer layer = [=](Value x, Line line) {
    const auto check = [&] {
      require_floating(x.type());
      require(unless_finite("init", options.init));
      const std::int64_t channels = x.rank() < 2 ? 1 : x.size(1);
      if (options.channels == 1 || options.channels == channels) return;
      throw Requirement{fmt::format("1 channel, or as many as the operand's {}, but {}", channels,
                                    options.channels)};
    };
    return compose("prelu", {x}, line, check, [&] {
      const Value weight = make_parameter(x.emitter(), "weight", {x.element(), {options.channels}},
                                          constant(options.init), line);
      return weight.poisoned() ? weight : prelu_of(x, weight);
    });
  };
  return options.channels == 1 ? rowwise(std::move(layer)) : layer;
}

Value glu(Value x, std::int64_t axis, Line line) {
  return compose(
      "glu", {x}, line, [&] { require_halves(x, axis); },
      [&] {
        const Values halves = chunk(x, 2, axis);
        return halves[0] * sigmoid(halves[1]);
      });
}

Layer glu(std::int64_t axis) {
  return of_axis(axis, [=](Value x, Line line) { return glu(x, axis, line); });
}

Value swiglu(Value x, std::int64_t axis, Line line) {
  return compose(
      "swiglu", {x}, line, [&] { require_halves(x, axis); },
      [&] {
        const Values halves = chunk(x, 2, axis);
        return silu(halves[0]) * halves[1];
      });
}

Layer swiglu(std::int64_t axis) {
  return of_axis(axis, [=](Value x, Line line) { return swiglu(x, axis, line); });
}

}  // namespace metronome
