// The gradients of the table's rows, in the language of the table.
#include <cmath>
#include <optional>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/number_of.h"
#include "ops/expr/functions.h"
#include "ops/expr/sums.h"

namespace metronome {

// A row by its name: mul({x, y}).
namespace rows {
namespace {

#define METRONOME_ROW(function, ...)                                                   \
  [[maybe_unused]] Value function(std::initializer_list<Value> operands, double a = 0, \
                                  double b = 0) {                                      \
    return elementwise(Function::function, operands, {}, a, b);                        \
  }
#include "ops/elementwise/elementwise_rows.h"
#undef METRONOME_ROW

const Value none;

Value undefined() { throw InternalError("a gradient is not differentiated again"); }

Value zero(const Value& g) { return make_constant(g.emitter(), 0, {g.element(), {}}, Line{}); }

/// g * y and g / y, 0 where g is. A number needs no look.
Value times(const Value& g, const Value& y) {
  const std::optional<double> number = number_of(y);
  return number && std::isfinite(*number) ? g * y : mul_grad({g, y});
}
Value over(const Value& g, const Value& y) {
  const std::optional<double> number = number_of(y);
  return number && *number != 0 && !std::isnan(*number) ? g / y : quotient_grad({g, y});
}

Values gradients(const Elementwise& op, const Vjp& v) {
  [[maybe_unused]] const double a = op.a, b = op.b;
  const Value &g = v.grad(), &out = v.out(0), &x = v.in(0);
  const Value &y = v.inputs.size() > 1 ? v.in(1) : none, &z = v.inputs.size() > 2 ? v.in(2) : none;
  (void)z;
  switch (op.function) {
#define METRONOME_ROW(function, operands, elements, numbers, formula, call, ...) \
  case Function::function:                                                       \
    return {__VA_ARGS__};
#include "ops/elementwise/elementwise_rows.h"
#undef METRONOME_ROW
  }
  throw InternalError("an elementwise function out of range");
}

}  // namespace
}  // namespace rows

Values Elementwise::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(v.inputs.size());
  Values gradients = rows::gradients(*this, v);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!is_floating(v.in(i).element())) gradients[i] = Value();
    if (gradients[i].present()) gradients[i] = sum_to(gradients[i], v.in(i).shape());
  }
  return gradients;
}

}  // namespace metronome
