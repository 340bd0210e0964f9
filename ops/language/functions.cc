// Operators and functions become nodes here. `call` takes values and numbers: numbers become
// constants of the first value's element type, and one that the type cannot hold is a mistake.
//
//   x + 0.5   ->  constant 0.5 of x's type, then add
//   0.5 < x   ->  the same constant, then less
//
// Axes that count from the end are turned to count from the front. One that is out of range stays,
// for the op's own rule to name. `BranchReduction` and `Product` join the branches of a split in a
// chain.
#include "ops/expr/functions.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/chunk/chunk.h"
#include "ops/concat/concat.h"
#include "ops/elementwise/elementwise.h"
#include "ops/embedding/embedding.h"
#include "ops/expand/expand.h"
#include "ops/pick/pick.h"
#include "ops/reduce/reduce.h"
#include "ops/transpose/transpose.h"

namespace metronome {
namespace {

/// Adds one row of the table over values and numbers. A number takes the element type of the first
/// value among the operands from `first` on.
Value call(Function function, std::initializer_list<Operand> operands, Line line,
           std::size_t first = 0) {
  Emitter* graph = nullptr;
  std::optional<Element> element;
  bool poisoned = false;
  Values given;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Value& v = operands.begin()[i].value;
    if (!v.present()) continue;
    Emitter* const own = v.emitter(line);
    if (graph == nullptr) graph = own;
    if (i >= first && !element) element = v.element();
    poisoned = poisoned || (v.poisoned() && v.emitter() == graph);
    given.push_back(v);
  }
  if (poisoned) return Value(graph, ValueId{});
  const auto refuse = [&](double number, const Requirement& requirement) {
    return mistake(graph, line,
                   fmt::format("{} cannot take the number {}", row_of(function).name, number),
                   given, requirement);
  };
  LineScope scope(graph, line);
  Values values;
  for (const Operand& operand : operands) {
    if (!operand.number || graph == nullptr) {
      values.push_back(operand.value);
    } else if (!element) {
      return refuse(*operand.number,
                    {"a value beside it to take the element type from, but both are numbers",
                     fmt::format("say the type: g.constant({}, mt::f32)", *operand.number)});
    } else if (!holds(*element, *operand.number)) {
      return refuse(*operand.number,
                    {fmt::format("{}, but {}", what_holds(*element), *operand.number),
                     fmt::format("cast the value first: x.cast(mt::{})",
                                 is_floating(*element) && !is_half(*element) ? "f64" : "f32")});
    } else {
      values.push_back(make_constant(graph, *operand.number, {*element, {}}, line));
    }
  }
  return apply(make_op(Elementwise{function}), values, line)[0];
}

/// The branches of `split` joined one after the other.
Value join_branches(Function function, const Values& branches, Line line) {
  if (branches.empty()) return apply(make_op(Elementwise{function}), branches, line)[0];
  Value result = branches[0];
  for (std::size_t i = 1; i < branches.size(); ++i) {
    result = call(function, {Operand(result, line), Operand(branches[i], line)}, line);
  }
  return result;
}

}  // namespace

Value operator+(Operand x, Operand y) { return call(Function::add, {x, y}, x.line); }
Value operator-(Operand x, Operand y) { return call(Function::sub, {x, y}, x.line); }
Value operator*(Operand x, Operand y) { return call(Function::mul, {x, y}, x.line); }
Value operator/(Operand x, Operand y) { return call(Function::div, {x, y}, x.line); }
Value operator-(Operand x) { return call(Function::neg, {x}, x.line); }
Value operator<(Operand x, Operand y) { return call(Function::less, {x, y}, x.line); }
Value operator<=(Operand x, Operand y) { return call(Function::less_equal, {x, y}, x.line); }
Value operator>(Operand x, Operand y) { return call(Function::greater, {x, y}, x.line); }
Value operator>=(Operand x, Operand y) { return call(Function::greater_equal, {x, y}, x.line); }
Value operator==(Operand x, Operand y) { return equal(x, y); }
Value operator!=(Operand x, Operand y) { return not_equal(x, y); }
Value equal(Operand x, Operand y) { return call(Function::equal, {x, y}, x.line); }
Value not_equal(Operand x, Operand y) { return call(Function::not_equal, {x, y}, x.line); }
Value minimum(Operand x, Operand y) { return call(Function::minimum, {x, y}, x.line); }
Value maximum(Operand x, Operand y) { return call(Function::maximum, {x, y}, x.line); }
Value logical_and(Operand x, Operand y) { return call(Function::logical_and, {x, y}, x.line); }
Value logical_or(Operand x, Operand y) { return call(Function::logical_or, {x, y}, x.line); }

Value UnaryFunction::operator()(Value x, Line line) const {
  return elementwise(function, {x}, line);
}

Value pow(Operand x, Operand y) {
  if (y.number && x.value.present())
    return elementwise(Function::pow_scalar, {x.value}, x.line, *y.number);
  return call(Function::pow, {x, y}, x.line);
}

Value fmod(Operand x, Operand y) { return call(Function::fmod, {x, y}, x.line); }
Value atan2(Operand y, Operand x) { return call(Function::atan2, {y, x}, y.line); }

Value clamp(Value x, double low, double high, Line line) {
  return elementwise(Function::clamp, {x}, line, low, high);
}

Value where(Value condition, Operand x, Operand y, Line line) {
  return call(Function::where, {Operand(condition, line), x, y}, line, 1);
}

Value Reduction::operator()(Value x, Axes axes, bool keep, Line line) const {
  Reduce op{kind, {}, keep};
  if (!x.usable(line)) return apply(std::move(op), {x}, line);
  if (axes.list) {
    op.axes = from_front(*axes.list, x.rank());
  } else {
    for (std::int64_t d = 0; d < x.rank(); ++d) op.axes.push_back(d);
  }
  return apply(std::move(op), {x}, line);
}

Value BranchReduction::operator()(const Values& branches, Line line) const {
  switch (kind) {
    case Reduce::Kind::max:
      return join_branches(Function::maximum, branches, line);
    case Reduce::Kind::min:
      return join_branches(Function::minimum, branches, line);
    default:
      break;
  }
  const Value total = join_branches(Function::add, branches, line);
  if (kind == Reduce::Kind::sum) return total;
  const double share = 1.0 / static_cast<double>(branches.size());
  return call(Function::mul, {Operand(total, line), Operand(share, line)}, line);
}

Value Product::operator()(const Values& branches, Line line) const {
  return join_branches(Function::mul, branches, line);
}

Value argmax(Value x, std::int64_t axis, Line line) {
  static_cast<void>(x.emitter(line));  // where it was destroyed, the line is told
  if (axis < 0 && axis >= -x.rank()) axis += x.rank();
  return apply(ArgMax{axis}, {x}, line);
}

Value expand(Value x, Shape shape, Line line) { return apply(Expand{std::move(shape)}, {x}, line); }

Value permute(Value x, std::vector<std::int64_t> axes, Line line) {
  static_cast<void>(x.emitter(line));  // where it was destroyed, the line is told
  for (std::int64_t& axis : axes) {
    if (axis < 0 && axis >= -x.rank()) axis += x.rank();
  }
  return apply(Transpose{std::move(axes)}, {x}, line);
}

Value concat(const Values& values, std::int64_t axis, Line line) {
  if (!values.empty() && axis < 0 && axis >= -values[0].rank()) axis += values[0].rank();
  return apply(make_op(Concat{axis}), values, line)[0];
}

Join concat(std::int64_t axis) {
  return [axis](const Values& branches, Line line) { return concat(branches, axis, line); };
}

Value stack(const Values& values, std::int64_t axis, Line line) {
  if (values.empty()) return concat(values, axis, line);
  LineScope scope(values[0].emitter(line), line);
  const std::int64_t rank = values[0].rank() + 1;
  const bool inside = axis >= -rank && axis < rank;
  if (inside && axis < 0) axis += rank;
  Values raised;
  for (const Value& value : values) {
    if (!value.present() || value.poisoned()) return concat(values, axis, line);
    Shape shape = value.shape();
    if (shape != values[0].shape()) {
      return mistake(value.emitter(), line, "stack cannot join the values", {{values[0], value}},
                     {fmt::format("values of one shape, but {} and {}",
                                  to_string(values[0].shape()), to_string(shape))});
    }
    // Out of range, the axis is concat's to name.
    shape.insert(shape.begin() + (inside ? axis : 0), 1);
    raised.push_back(value.reshape(std::move(shape), line));
  }
  return concat(raised, axis, line);
}

Values chunk(Value x, std::int64_t n, std::int64_t axis, Line line) {
  static_cast<void>(x.emitter(line));  // where it was destroyed, the line is told
  if (x.present() && !x.poisoned() && axis < 0 && axis >= -x.rank()) axis += x.rank();
  return apply(make_op(Chunk{axis, n}), {&x, 1}, line,
               static_cast<std::size_t>(std::clamp<std::int64_t>(n, 1, kMostCopies)));
}

Value embedding_lookup(Value table, Value index, Line line) {
  return apply(Embedding{}, {table, index}, line);
}

Value pick(Value x, Value index, Line line) { return apply(Pick{}, {x, index}, line); }

}  // namespace metronome
