// Cases of the elementwise table: every row, every form of broadcasting, every kind of loop.
#include <fmt/format.h>

#include "graph/ir/op_model.h"
#include "ops/elementwise/elementwise.h"

namespace metronome {
namespace {

/// Numbers at which a row is smooth and its gradient moderate.
Fillings filling(Function function, int operand) {
  switch (function) {
    case Function::log:
    case Function::log1p:
    case Function::sqrt:
    case Function::sqrt_grad:
    case Function::rsqrt:
    case Function::rsqrt_grad:
    case Function::pow:
    case Function::pow_grad_base:
    case Function::pow_grad_exponent:
    case Function::pow_scalar:
    case Function::pow_scalar_grad:
      return {.low = 0.5, .high = 2.5};
    case Function::reciprocal:
    case Function::reciprocal_grad:
      return {.low = 0.5, .high = 2};
    case Function::div:
    case Function::quotient_grad:
    case Function::fmod:
      return operand == 1 ? Fillings{.low = 0.5, .high = 2} : Fillings{};
    case Function::asin:
    case Function::acos:
      return {.low = -0.9, .high = 0.9};
    case Function::asin_grad:
      return operand == 1 ? Fillings{.low = -0.9, .high = 0.9} : Fillings{};
    case Function::atan2:
      return operand == 0 ? Fillings{.low = 0.5, .high = 2} : Fillings{};
    case Function::atan2_grad:
      return operand == 1 ? Fillings{.low = 0.5, .high = 2} : Fillings{};
    case Function::norm_grad:
    case Function::div_grad:
      return operand == 2 ? Fillings{.low = 0.5, .high = 2} : Fillings{};
    case Function::tanh_grad:
    case Function::sigmoid_grad:
      return operand == 1 ? Fillings{.low = 0, .high = 1} : Fillings{};
    case Function::exp:
    case Function::expm1:
      return {.low = -4, .high = 4};
    case Function::gelu:
    case Function::silu:
    case Function::tanh:
    case Function::sigmoid:
    case Function::softplus:
    case Function::softsign:
      return {.low = -6, .high = 6};
    default:
      return {};
  }
}

bool is_gradient(const FunctionRow& row) {
  return row.name.find("_grad") != std::string_view::npos;
}

/// Flat wherever it is smooth, so no gradient flows through it.
bool is_step(Function function) {
  switch (function) {
    case Function::sign:
    case Function::floor:
    case Function::ceil:
    case Function::round:
    case Function::trunc:
      return true;
    default:
      return false;
  }
}

Case make(Function function, std::string name, Element element, const std::vector<Shape>& shapes) {
  const FunctionRow& row = row_of(function);
  Elementwise op{function};
  if (row.numbers == 1) op.a = 1.7;
  if (row.numbers == 2) {
    op.a = is_floating(element) ? -0.6 : -1, op.b = is_floating(element) ? 0.9 : 1;
  }
  Case result{.name = fmt::format("{} {}", row.name, name), .op = make_op(op), .inputs = {}};
  for (int i = 0; i < row.operands; ++i) {
    const bool condition = row.elements == Elements::chosen && i == 0;
    CaseInput input{{condition ? bool_ : element, shapes[i]}, filling(function, i)};
    if (input.type.element == bool_) {
      input.fill = whole_fill(bool_);
    } else if (!is_floating(element)) {
      input.fill = {
          .kind = Fillings::Kind::integers, .low = -9, .high = 9, .differentiable = false};
    }
    result.inputs.push_back(std::move(input));
  }
  result.gradient = is_floating(element) && !is_half(element) && !is_gradient(row) &&
                    row.elements != Elements::compared && !is_step(function);
  // The gradient of an operand that is broadcast is a sum.
  for (const Shape& shape : shapes) result.sums = result.sums || shape != shapes[0];
  return result;
}

std::vector<Element> elements_of(const FunctionRow& row) {
  switch (row.elements) {
    case Elements::floating:
      return {f32};
    case Elements::numbers:
      return {f32, i32, i64};
    case Elements::booleans:
      return {bool_};
    case Elements::compared:
      return {f32, i32, i64, bool_};
    case Elements::chosen:
      return {f32, i32, i64, bool_, bf16, f16};
  }
  return {};
}

}  // namespace

std::vector<Case> Elementwise::cases() {
  std::vector<Case> cases;
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    const auto function = static_cast<Function>(i);
    const FunctionRow& row = kRows[i];
    for (const Element element : elements_of(row)) {
      const std::string type(name_of(element));
      cases.push_back(make(function, type + " odd sizes", element, {3, {7, 37}}));
      cases.push_back(make(function, type + " one element", element, {3, Shape{}}));
      if (row.operands == 1) continue;
      cases.push_back(make(function, type + " vector", element, {{5, 67}, {67}, {5, 67}}));
      cases.push_back(make(function, type + " columns", element, {{6, 1}, {6, 35}, {6, 1}}));
    }
  }
  // Every form of broadcasting and every size, on one row: the loops are the same for all.
  const std::vector<std::pair<std::string, std::vector<Shape>>> forms = {
      {"empty", {{0, 4}, {4}}},
      {"one row", {{1, 1000}, {1, 1000}}},
      {"a scalar on the left", {{}, {4, 33}}},
      {"a scalar on the right", {{4, 33}, {1}}},
      {"outer product", {{9, 1}, {1, 21}}},
      {"middle repeated", {{3, 1, 5}, {3, 4, 5}}},
      {"channels", {{2, 3, 4, 5}, {3, 1, 1}}},
      {"crossed", {{2, 1, 4, 1, 3}, {1, 3, 1, 5, 1}}},
      {"wide for threads", {{300, 257}, {300, 257}}},
      {"wide vector for threads", {{300, 257}, {257}}},
      {"wide column for threads", {{300, 1}, {300, 257}}},
      {"wide crossed for threads", {{40, 1, 30, 7}, {1, 9, 1, 7}}},
  };
  for (const auto& [name, shapes] : forms) {
    cases.push_back(make(Function::mul, name, f32, shapes));
    cases.push_back(make(Function::greater, name, f32, shapes));
  }
  return cases;
}

}  // namespace metronome
