#include "executor/onnx/term.h"

namespace metronome::onnx {
namespace {

Term add_operator(std::string_view op, std::initializer_list<Term> x, Element element) {
  Names inputs;
  for (const Term& term : x) inputs.push_back(term.name);
  NodeWriter& writer = *x.begin()->writer;
  return {&writer, writer.call(op, inputs), element};
}

}  // namespace

Term term_of(NodeWriter& writer, std::size_t operand) {
  return {&writer, writer.in(operand), writer.type(operand).element};
}

Term call(std::string_view op, std::initializer_list<Term> x) {
  return add_operator(op, x, x.begin()->element);
}

Term ask(std::string_view op, std::initializer_list<Term> x) { return add_operator(op, x, bool_); }

Term number_like(const Term& x, double number) {
  return {x.writer, x.writer->number(number, x.element), x.element};
}

Term cast(const Term& x, Element element) {
  if (x.element == element) return x;
  return {x.writer, x.writer->cast(x.name, element), element};
}

Term select(const Term& condition, const Term& x, const Term& y) {
  if (x.element != bool_) return add_operator("Where", {condition, x, y}, x.element);
  return ask("Or", {ask("And", {condition, x}), ask("And", {ask("Not", {condition}), y})});
}

Term operator+(const Term& x, const Term& y) { return call("Add", {x, y}); }
Term operator-(const Term& x, const Term& y) { return call("Sub", {x, y}); }
Term operator*(const Term& x, const Term& y) { return call("Mul", {x, y}); }
Term operator/(const Term& x, const Term& y) { return call("Div", {x, y}); }
Term operator-(const Term& x) { return call("Neg", {x}); }
Term operator+(const Term& x, double y) { return x + number_like(x, y); }
Term operator-(const Term& x, double y) { return x - number_like(x, y); }
Term operator-(double x, const Term& y) { return number_like(y, x) - y; }
Term operator*(const Term& x, double y) { return x * number_like(x, y); }
Term operator/(const Term& x, double y) { return x / number_like(x, y); }
Term operator<(const Term& x, double y) { return ask("Less", {x, number_like(x, y)}); }
Term operator>(const Term& x, double y) { return ask("Greater", {x, number_like(x, y)}); }
Term operator>=(const Term& x, double y) { return ask("GreaterOrEqual", {x, number_like(x, y)}); }
Term operator<=(const Term& x, double y) { return ask("LessOrEqual", {x, number_like(x, y)}); }
Term operator==(const Term& x, double y) { return ask("Equal", {x, number_like(x, y)}); }
Term is_nan(const Term& x) { return ask("IsNaN", {x}); }

}  // namespace metronome::onnx
