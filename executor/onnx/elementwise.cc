// Elementwise functions, in two tables: those that are one operator, and those that are formulas.
#include <algorithm>
#include <numbers>

#include "executor/onnx/mappings.h"
#include "executor/onnx/special_functions.h"
#include "ops/cast/cast.h"
#include "ops/elementwise/elementwise.h"

namespace metronome::onnx {
namespace {

/// A function that is one operator, of each element type that the function takes.
struct OneOperator {
  Function function;
  std::string_view op;
};

constexpr OneOperator kOperators[] = {
    {Function::add, "Add"},         {Function::sub, "Sub"},
    {Function::mul, "Mul"},         {Function::div, "Div"},
    {Function::neg, "Neg"},         {Function::abs, "Abs"},
    {Function::minimum, "Min"},     {Function::maximum, "Max"},
    {Function::floor, "Floor"},     {Function::ceil, "Ceil"},
    {Function::round, "Round"},     {Function::logical_and, "And"},
    {Function::logical_or, "Or"},   {Function::logical_not, "Not"},
    {Function::sqrt, "Sqrt"},       {Function::reciprocal, "Reciprocal"},
    {Function::exp, "Exp"},         {Function::log, "Log"},
    {Function::sin, "Sin"},         {Function::cos, "Cos"},
    {Function::pow, "Pow"},         {Function::tanh, "Tanh"},
    {Function::sigmoid, "Sigmoid"},
};

using Terms = std::span<const Term>;

/// x, but -1000 below it: a factor of what is 0 there, as -inf times 0 is no number.
Term above_nothing(const Term& x) { return call("Max", {x, number_like(x, -1000)}); }

/// In f64 the tail keeps its digits; in f32 it is written as runtimes know it and join it.
Term gelu(const Term& x) {
  const Term inside = above_nothing(x);
  const Term turned = inside * (1 / std::numbers::sqrt2);
  if (x.element == f64) return inside * 0.5 * erfc(-turned);
  return inside * (erf(turned) + 1) * 0.5;
}

Term softplus(const Term& x) {
  if (x.element == f32) return call("Softplus", {x});
  return call("Max", {x, number_like(x, 0)}) + log1p(call("Exp", {-call("Abs", {x})}));
}

/// For booleans, numbers that compare as they do.
Term comparable(const Term& x) { return x.element == bool_ ? cast(x, i32) : x; }

/// A factor times a term, or 0 where the target leaves it out, infinite as the term may be.
Term term_of_target(const Term& y, double left_out, const Term& factor, const Term& x) {
  return select(y == left_out, number_like(x, 0), factor * call("Relu", {x}));
}

Term bce_with_logits(const Term& x, const Term& y) {
  return term_of_target(y, 1, 1 - y, x) + term_of_target(y, 0, y, -x) +
         log1p(call("Exp", {-call("Abs", {x})}));
}

Term fmod(const Term& x, const Term& y) {
  NodeWriter& writer = *x.writer;
  return {&writer, writer.call("Mod", {x.name, y.name}, {{"fmod", std::int64_t{1}}}), x.element};
}

Term softsign(const Term& x) {
  const Term far = number_like(x, 1e30);
  const Term inside = call("Min", {call("Max", {x, -far}), far});
  return inside / (call("Abs", {inside}) + 1);
}

struct Formula {
  Function function;
  Term (*write)(Terms x, const Elementwise& op);
};

#define METRONOME_FORMULA(function, formula) \
  {Function::function,                       \
   [](Terms x, [[maybe_unused]] const Elementwise& op) -> Term { return formula; }}

constexpr Formula kFormulas[] = {
    METRONOME_FORMULA(sign, cast(x[0] > 0, x[0].element) - cast(x[0] < 0, x[0].element)),
    METRONOME_FORMULA(clamp, call("Min", {call("Max", {x[0], number_like(x[0], op.a)}),
                                          number_like(x[0], op.b)})),
    METRONOME_FORMULA(trunc, select(x[0] < 0, call("Ceil", {x[0]}), call("Floor", {x[0]}))),
    METRONOME_FORMULA(equal, ask("Equal", {x[0], x[1]})),
    METRONOME_FORMULA(not_equal, ask("Not", {ask("Equal", {x[0], x[1]})})),
    METRONOME_FORMULA(less, ask("Less", {comparable(x[0]), comparable(x[1])})),
    METRONOME_FORMULA(less_equal, ask("LessOrEqual", {comparable(x[0]), comparable(x[1])})),
    METRONOME_FORMULA(greater, ask("Greater", {comparable(x[0]), comparable(x[1])})),
    METRONOME_FORMULA(greater_equal, ask("GreaterOrEqual", {comparable(x[0]), comparable(x[1])})),
    METRONOME_FORMULA(where, select(x[0], x[1], x[2])),
    METRONOME_FORMULA(square, x[0] * x[0]),
    METRONOME_FORMULA(rsqrt, call("Reciprocal", {call("Sqrt", {x[0]})})),
    METRONOME_FORMULA(expm1, expm1(x[0])),
    METRONOME_FORMULA(asin, asin(x[0])),
    METRONOME_FORMULA(acos, acos(x[0])),
    METRONOME_FORMULA(atan, atan(x[0])),
    METRONOME_FORMULA(atan2, atan2(x[0], x[1])),
    METRONOME_FORMULA(erf, erf(x[0])),
    METRONOME_FORMULA(erfc, erfc(x[0])),
    METRONOME_FORMULA(gelu, gelu(x[0])),
    METRONOME_FORMULA(fmod, fmod(x[0], x[1])),
    METRONOME_FORMULA(log1p, log1p(x[0])),
    METRONOME_FORMULA(pow_scalar, call("Pow", {x[0], number_like(x[0], op.a)})),
    METRONOME_FORMULA(relu, x[0].element == i64 ? call("Max", {x[0], number_like(x[0], 0)})
                                                : call("Relu", {x[0]})),
    METRONOME_FORMULA(silu, above_nothing(x[0]) * call("Sigmoid", {x[0]})),
    METRONOME_FORMULA(softplus, softplus(x[0])),
    METRONOME_FORMULA(softsign, softsign(x[0])),
    METRONOME_FORMULA(bce_with_logits, bce_with_logits(x[0], x[1])),
};

#undef METRONOME_FORMULA

Names write_elementwise(const Elementwise& op, NodeWriter& writer) {
  std::vector<Term> x;
  for (std::size_t i = 0; i < writer.operands(); ++i) x.push_back(term_of(writer, i));
  const auto* one = std::ranges::find(kOperators, op.function, &OneOperator::function);
  if (one != std::end(kOperators)) {
    Names inputs;
    for (const Term& each : x) inputs.push_back(each.name);
    return {writer.call(one->op, std::move(inputs))};
  }
  const auto* formula = std::ranges::find(kFormulas, op.function, &Formula::function);
  if (formula != std::end(kFormulas)) return {formula->write(x, op).name};
  writer.refuse("ONNX has no operator for it");
}

Names write_cast(const Cast& op, NodeWriter& writer) {
  return {writer.cast(writer.in(0), op.element)};
}

}  // namespace

std::span<const Mapping> elementwise_mappings() {
  static const Mapping kMappings[] = {
      mapping<Elementwise, write_elementwise>(),
      mapping<Cast, write_cast>(),
  };
  return kMappings;
}

}  // namespace metronome::onnx
