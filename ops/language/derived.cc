// Each function is a formula of others, checked and named by `compose`. The formulas keep numbers
// finite in three ways:
//
//   scale    logsumexp takes the largest element out first, norm of another p than 1 or 2 the
//            largest magnitude; both are constants to the gradient
//   choose   roots, logarithms and quotients of 0 get 1 in place of 0, and `where` puts 0 back: its
//            gradient is then 0, not NaN
//   repair   remainder and floor_divide begin with the exact fmod, and correct it if its sign is
//            not the divisor's
//
// `tril` and `triu` choose by a constant of booleans. `arange` and `linspace` count on the host.
#include "ops/language/derived.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "ops/language/composed.h"
#include "ops/reduce/reduce.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

/// Axes from the front, or all.
std::vector<std::int64_t> axes_of(const Value& x, const Axes& axes) {
  if (axes.list) return from_front(*axes.list, x.rank());
  std::vector<std::int64_t> all;
  for (std::int64_t d = 0; d < x.rank(); ++d) all.push_back(d);
  return all;
}

/// x floating, the axes its own and each named once.
void require_distinct_axes(const Value& x, const Axes& axes) {
  require_floating(x.type());
  if (!axes.list) return;
  for (const std::int64_t axis : *axes.list) require_axis(x, axis);
  const std::vector<std::int64_t> sorted = from_front(*axes.list, x.rank());
  if (std::ranges::adjacent_find(sorted) == sorted.end()) return;
  throw Requirement{fmt::format("each axis once, but [{}]", fmt::join(*axes.list, ", "))};
}

/// Elements that become one.
std::int64_t reduced_count(const Value& x, const Axes& axes) {
  std::int64_t count = 1;
  for (const std::int64_t axis : axes_of(x, axes)) count *= x.size(axis);
  return count;
}

Value norm_of(Value x, double p, const Axes& axes, bool keep) {
  if (p == 2) return Reduction{ReduceKind::norm}(x, axes, keep);
  if (p == 1) return sum(abs(x), axes, keep);
  if (std::isinf(p)) return max(abs(x), axes, keep);
  if (reduced_count(x, axes) == 0) return sum(x, axes, keep);
  // Powers of parts of the largest, which neither overflow nor all sink to 0.
  const Value largest = stop_gradient(max(abs(x), axes, true));
  const Value none = logical_or(equal(largest, 0.0), not_equal(largest - largest, 0.0));
  const Value scale = where(none, 1.0, largest);
  const Value total = sum(pow(abs(x / scale), p), axes, keep), is_0 = equal(total, 0.0);
  const Value root = where(is_0, 0.0, pow(where(is_0, 1.0, total), 1 / p));
  return root * scale.reshape(root.shape());
}

Value var_of(Value x, const Axes& axes, const VarOptions& options) {
  const Value moved = x - mean(x, axes, true);
  const double count = static_cast<double>(reduced_count(x, axes)) - options.correction;
  return sum_squares(moved, axes, options.keep) / count;
}

void require_variance(const Value& x, const Axes& axes, const VarOptions& options) {
  require(unless_finite("correction", options.correction));
  require_distinct_axes(x, axes);
  const std::int64_t count = reduced_count(x, axes);
  if (static_cast<double>(count) > options.correction) return;
  throw Requirement{
      fmt::format("more elements than the correction, {}, but {}", options.correction, count)};
}

/// x where column - row is in [low, high], else 0.
Value keep_band(Value x, double low, double high) {
  const std::int64_t rows = x.size(-2), columns = x.size(-1);
  std::vector<double> inside;
  inside.reserve(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const auto at = static_cast<double>(column - row);
      inside.push_back(at >= low && at <= high);
    }
  }
  return where(make_constant(x.emitter(), inside, {bool_, {rows, columns}}, Line{}), x, 0.0);
}

void require_matrices(const Value& x) {
  if (x.rank() >= 2) return;
  throw Requirement{fmt::format("two dimensions or more, but {}", to_string(x.shape()))};
}

/// A constant of x's type, made under the path `name`.
Value fill_like(std::string_view name, Value x, double number, Line line) {
  return compose(
      name, {x}, line, [] {}, [&] { return make_constant(x.emitter(), number, x.type(), line); });
}

/// True if the two numbers lie on different sides of 0; false if either is 0.
Value on_other_side(Value remainder, const Operand& y) {
  if (!y.number) return sign(remainder) * sign(y.value) < 0.0;
  return *y.number < 0 ? remainder > 0.0 : remainder < 0.0;
}

[[noreturn]] void refuse(std::string_view what, Line line, const Requirement& missed) {
  throw GraphError({fmt::format("{}: {} cannot be made\n  requires   {}", to_string(line), what,
                                missed.requires_)});
}

void check_series(std::string_view what, double start, double end, Line line) {
  for (const auto& missed : {unless_finite("start", start), unless_finite("end", end)}) {
    if (missed) refuse(what, line, *missed);
  }
}

}  // namespace

void require_order(double p) {
  if (p >= 1) return;
  throw Requirement{fmt::format("a p of 1 or more, but {}", p)};
}

Value remainder(Operand x, Operand y) {
  const Value left = fmod(x, y);
  if (left.poisoned()) return left;
  const LineScope scope(left.emitter(), x.line);
  return where(on_other_side(left, y), left + y, left);
}

Value floor_divide(Operand x, Operand y) {
  const Value left = fmod(x, y);
  if (left.poisoned()) return left;
  const LineScope scope(left.emitter(), x.line);
  // Whole but for rounding: one too many where the remainder lies on the other side of 0.
  const Value whole = round((x - left) / y);
  const Value exact = where(on_other_side(left, y), whole - 1.0, whole);
  if (y.number) return stop_gradient(*y.number == 0 ? x / y : exact);
  return stop_gradient(where(equal(y, 0.0), x / y, exact));
}

Value logsumexp(Value x, Axes axes, bool keep, Line line) {
  return compose(
      "logsumexp", {x}, line, [&] { require_distinct_axes(x, axes); },
      [&] {
        // An infinity stays where it is: less itself it would be no number.
        const Value largest = stop_gradient(max(x, axes, true));
        const Value base = where(equal(largest - largest, 0.0), largest, 0.0);
        // Nothing is left of -inf alone to divide a gradient by: it is 0.
        const Value total = sum(exp(x - base), axes, keep), none = equal(total, 0.0);
        const Value result = log(where(none, 1.0, total)) + base.reshape(total.shape());
        return where(none, -std::numeric_limits<double>::infinity(), result);
      });
}

Value var(Value x, Axes axes, VarOptions options, Line line) {
  return compose(
      "var", {x}, line, [&] { require_variance(x, axes, options); },
      [&] { return var_of(x, axes, options); });
}

Value stddev(Value x, Axes axes, VarOptions options, Line line) {
  return compose(
      "stddev", {x}, line, [&] { require_variance(x, axes, options); },
      [&] {
        const double count = static_cast<double>(reduced_count(x, axes)) - options.correction;
        return norm_of(x - mean(x, axes, true), 2, axes, options.keep) * (1 / std::sqrt(count));
      });
}

Value norm(Value x, double p, Axes axes, bool keep, Line line) {
  const auto check = [&] {
    require_order(p);
    require_distinct_axes(x, axes);
  };
  return compose("norm", {x}, line, check, [&] { return norm_of(x, p, axes, keep); });
}

Value normalize(Value x, std::int64_t axis, NormalizeOptions options, Line line) {
  const auto check = [&] {
    require_order(options.p);
    require(unless_above_0("eps", options.eps));
    require_distinct_axes(x, axis);
  };
  return compose("normalize", {x}, line, check, [&] {
    const Value size = norm_of(x, options.p, axis, true);
    return x / where(size < options.eps, options.eps, size);
  });
}

Value cosine_similarity(Value a, Value b, std::int64_t axis, double eps, Line line) {
  const auto check = [&] {
    require(unless_above_0("eps", eps));
    require_alike({a, b});
    require_axis(a, axis);
  };
  return compose("cosine_similarity", {a, b}, line, check, [&] {
    const auto direction = [&](const Value& x) {
      return x / at_least(norm_of(x, 2, axis, true), eps);
    };
    return sum(direction(a) * direction(b), axis);
  });
}

Value one_hot(Value index, std::int64_t classes, Element element, Line line) {
  const auto check = [&] {
    require_integer(index.type());
    if (classes < 1) throw Requirement{fmt::format("1 class or more, but {}", classes)};
  };
  return compose("one_hot", {index}, line, check, [&] {
    Shape column = index.shape();
    column.push_back(1);
    const Value each = make_constant(index.emitter(), arange(0, static_cast<double>(classes)),
                                     {index.element(), {classes}}, Line{});
    return equal(index.reshape(column), each).cast(element);
  });
}

Value tril(Value x, std::int64_t diagonal, Line line) {
  constexpr double kAll = -std::numeric_limits<double>::infinity();
  return compose(
      "tril", {x}, line, [&] { require_matrices(x); },
      [&] { return keep_band(x, kAll, static_cast<double>(diagonal)); });
}

Value triu(Value x, std::int64_t diagonal, Line line) {
  constexpr double kAll = std::numeric_limits<double>::infinity();
  return compose(
      "triu", {x}, line, [&] { require_matrices(x); },
      [&] { return keep_band(x, static_cast<double>(diagonal), kAll); });
}

Value zeros_like(Value x, Line line) { return fill_like("zeros_like", x, 0, line); }
Value ones_like(Value x, Line line) { return fill_like("ones_like", x, 1, line); }
Value full_like(Value x, double number, Line line) {
  return fill_like("full_like", x, number, line);
}

std::vector<double> arange(double start, double end, double step, Line line) {
  check_series("arange", start, end, line);
  const double count = std::ceil((end - start) / step);
  if (!std::isfinite(step) || step == 0 || !(count >= 0)) {
    refuse("arange", line,
           {fmt::format("a step that leads from {} to {}, but {}", start, end, step)});
  }
  std::vector<double> numbers;
  for (double i = 0; i < count; ++i) numbers.push_back(start + i * step);
  return numbers;
}

std::vector<double> linspace(double start, double end, std::int64_t steps, Line line) {
  check_series("linspace", start, end, line);
  if (steps < 1) refuse("linspace", line, {fmt::format("1 step or more, but {}", steps)});
  // From both ends, so that the last one is the end.
  std::vector<double> numbers;
  const double step = steps == 1 ? 0 : (end - start) / static_cast<double>(steps - 1);
  for (std::int64_t i = 0; i < steps; ++i) {
    numbers.push_back(i < steps / 2 || steps == 1
                          ? start + step * static_cast<double>(i)
                          : end - step * static_cast<double>(steps - 1 - i));
  }
  return numbers;
}

}  // namespace metronome
