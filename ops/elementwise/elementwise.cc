#include "ops/elementwise/elementwise.h"

#include <fmt/format.h>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/node.h"
#include "ops/elementwise/number_of.h"
#include "ops/expand/expand.h"
#include "ops/rules/require.h"

namespace metronome {

Value elementwise(Function function, std::initializer_list<Value> operands, Line line, double a,
                  double b) {
  return apply(Elementwise{function, a, b}, operands, line);
}

std::string Elementwise::attributes() const {
  switch (row_of(function).numbers) {
    case 1:
      return fmt::format("{}", a);
    case 2:
      return fmt::format("{}, {}", a, b);
    default:
      return "";
  }
}

Types Elementwise::infer(std::span<const Type> in) const {
  const FunctionRow& row = row_of(function);
  if (in.size() != static_cast<std::size_t>(row.operands)) {
    throw Requirement{fmt::format("{} operands, but {}", row.operands, in.size())};
  }
  if (row.elements == Elements::chosen) {
    if (in[0].element != bool_) {
      throw Requirement{fmt::format("a condition of bool, but {}", name_of(in[0].element)),
                        "compare it: mt::not_equal(x, 0)"};
    }
    require_equal_elements(in.subspan(1), 1);
  } else {
    require_equal_elements(in);
  }
  switch (row.elements) {
    case Elements::floating:
      require_floating(in[0]);
      break;
    case Elements::numbers:
      require_number(in[0]);
      break;
    case Elements::booleans:
      require_boolean(in[0]);
      break;
    case Elements::compared:
    case Elements::chosen:
      break;
  }
  if (function == Function::clamp && !(a <= b)) {
    throw Requirement{
        fmt::format("a lower bound that is not above the upper one, but {} and {}", a, b)};
  }
  if (function == Function::clamp) {
    for (const double bound : {a, b}) {
      if (holds(in[0].element, bound)) continue;
      throw Requirement{fmt::format("{}, but {}", what_holds(in[0].element), bound),
                        "cast the value first: x.cast(mt::f64)"};
    }
  }
  Type result{in.back().element, in[0].shape};
  for (const Type& type : in.subspan(1)) result.shape = broadcast(result.shape, type.shape);
  if (row.elements == Elements::compared) result.element = bool_;
  return {std::move(result)};
}

std::vector<InPlace> Elementwise::in_place() const {
  // Not where the result's elements are smaller than an operand's: equal bytes would then be those
  // of a shorter operand that is broadcast.
  switch (const FunctionRow& row = row_of(function); row.elements) {
    case Elements::compared:
      return {};
    case Elements::chosen:
      return {{0, 1}, {0, 2}};
    default: {
      std::vector<InPlace> result;
      for (int i = 0; i < row.operands; ++i) result.push_back({0, i});
      return result;
    }
  }
}

namespace {

/// The operand that the function leaves as it is, or absent.
Value unchanged_operand(const Elementwise& op, std::span<const Value> in) {
  const auto is = [&](std::size_t i, double number) { return number_of(in[i]) == number; };
  switch (op.function) {
    case Function::add:
      return is(1, 0) ? in[0] : is(0, 0) ? in[1] : Value();
    case Function::sub:
      return is(1, 0) ? in[0] : Value();
    case Function::mul:
      return is(1, 1) ? in[0] : is(0, 1) ? in[1] : Value();
    case Function::mul_grad:
    case Function::quotient_grad:
    case Function::div:
      return is(1, 1) ? in[0] : Value();
    case Function::pow_scalar:
      return op.a == 1 ? in[0] : Value();
    case Function::neg:
    case Function::logical_not: {
      const Elementwise* inner = in[0].node().op->as<Elementwise>();
      if (inner == nullptr || inner->function != op.function) return {};
      return Value(in[0].emitter(), in[0].node().inputs[0]);
    }
    default:
      return {};
  }
}

}  // namespace

Value Elementwise::fold(std::span<const Value> in) const {
  Types types;
  for (const Value& v : in) types.push_back(v.type());
  const Type result = infer(types)[0];
  const Value same = unchanged_operand(*this, in);
  if (same.present() && same.type() == result) return same;
  if (function == Function::pow_scalar && a == 2) {
    return apply(Elementwise{Function::square}, {in[0]}, {});
  }
  // An operand is broadcast here anyway, as long as another one has the whole shape.
  Values operands(in.begin(), in.end());
  bool shorter = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Node& node = operands[i].node();
    if (node.op->as<Expand>() == nullptr) continue;
    const Value before(operands[i].emitter(), node.inputs[0]);
    const Type expanded = std::exchange(types[i], before.type());
    if (infer(types)[0] == result) {
      operands[i] = before;
      shorter = true;
    } else {
      types[i] = expanded;
    }
  }
  return shorter ? apply(make_op(*this), operands, {})[0] : Value();
}

}  // namespace metronome
