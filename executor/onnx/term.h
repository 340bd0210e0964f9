// Formulas over values of an ONNX model: `x * sigmoid` adds an operator.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "executor/onnx/node_writer.h"

namespace metronome::onnx {

/// A value of the model under construction, or a number of its writer's.
struct Term {
  NodeWriter* writer;
  std::string name;
  Element element;
};

/// Operand i of the writer's node.
Term term_of(NodeWriter& writer, std::size_t operand);
/// An operator that keeps the element type.
Term call(std::string_view op, std::initializer_list<Term> x);
/// One that gives bool.
Term ask(std::string_view op, std::initializer_list<Term> x);
/// A scalar of the term's element type.
Term number_like(const Term& x, double number);
Term cast(const Term& x, Element element);
/// x where the condition holds, else y. Elements of bool are joined by logic, as ONNX Runtime has
/// no other operator for them.
Term select(const Term& condition, const Term& x, const Term& y);

Term operator+(const Term& x, const Term& y);
Term operator-(const Term& x, const Term& y);
Term operator*(const Term& x, const Term& y);
Term operator/(const Term& x, const Term& y);
Term operator-(const Term& x);
Term operator+(const Term& x, double y);
Term operator-(const Term& x, double y);
Term operator-(double x, const Term& y);
Term operator*(const Term& x, double y);
Term operator/(const Term& x, double y);
Term operator<(const Term& x, double y);
Term operator>(const Term& x, double y);
Term operator>=(const Term& x, double y);
Term operator<=(const Term& x, double y);
Term operator==(const Term& x, double y);
Term is_nan(const Term& x);

}  // namespace metronome::onnx
