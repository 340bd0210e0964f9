#include "ops/layers/recurrent_step.h"

#include <fmt/format.h>

#include <cmath>

#include "graph/ir/error.h"
#include "ops/language/init.h"
#include "ops/language/layers.h"

namespace metronome::recurrent {
namespace {

Value gru_step(std::span<const Value> parts, const Value& h, const Weights& w, Line line) {
  const Values hidden = chunk(linear(h, w.hh, w.bias_hh, line), 3, -1, line);
  const Value reset = sigmoid(parts[0] + hidden[0]), update = sigmoid(parts[1] + hidden[1]);
  const Value scaled = reset * hidden[2];
  const Value proposed = tanh(parts[2] + scaled);
  const Value kept = update * (h - proposed);
  return kept + proposed;
}

State lstm_step(const Value& part, const State& state, const Weights& w, Line line) {
  const Value product = linear(state.hidden, w.hh, {}, line);
  const Values gates = chunk(part + product, 4, -1, line);
  const Value input = sigmoid(gates[0]), forget = sigmoid(gates[1]), proposed = tanh(gates[2]);
  const Value output = sigmoid(gates[3]);
  const Value kept = forget * state.cell, added = input * proposed;
  const Value cell = kept + added;
  return {output * tanh(cell), cell};
}

}  // namespace

std::string_view name_of(RecurrentKind kind) {
  switch (kind) {
    case RecurrentKind::rnn:
      return "rnn";
    case RecurrentKind::gru:
      return "gru";
    case RecurrentKind::lstm:
      return "lstm";
  }
  throw InternalError("a kind of recurrent layer out of range");
}

std::int64_t gates_of(RecurrentKind kind) {
  if (kind == RecurrentKind::rnn) return 1;
  return kind == RecurrentKind::gru ? 3 : 4;
}

Weights make_weights(Emitter* emitter, RecurrentKind kind, Type input, std::int64_t hidden,
                     const CellOptions& options, const std::string& suffix, Line line) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  const std::int64_t rows = gates_of(kind) * hidden;
  const auto make = [&](const char* name, Shape shape, const std::optional<Init>& init) {
    return make_parameter(emitter, name + suffix, {input.element, std::move(shape)},
                          init.value_or(uniform(-bound, bound)), line);
  };
  Weights weights;
  weights.ih = make("weight_ih", {rows, input.shape.back()}, options.weight_init);
  if (weights.ih.poisoned()) return weights;  // the others would tell of the same mistake
  weights.hh = make("weight_hh", {rows, hidden}, options.weight_init);
  if (!options.bias || weights.hh.poisoned()) return weights;
  weights.bias_ih = make("bias_ih", {rows}, options.bias_init);
  if (weights.bias_ih.poisoned()) return weights;
  weights.bias_hh = make("bias_hh", {rows}, options.bias_init);
  return weights;
}

Values input_parts(RecurrentKind kind, Value x, const Weights& weights, Line line) {
  if (kind == RecurrentKind::gru) {
    return chunk(linear(x, weights.ih, weights.bias_ih, line), 3, -1, line);
  }
  const Value bias =
      weights.bias_ih.present() ? weights.bias_ih + weights.bias_hh : weights.bias_ih;
  return {linear(x, weights.ih, bias, line)};
}

State step(RecurrentKind kind, std::span<const Value> parts, const State& state,
           const Weights& weights, UnaryFunction nonlinearity, Line line) {
  if (kind == RecurrentKind::gru) return {gru_step(parts, state.hidden, weights, line), {}};
  if (kind == RecurrentKind::lstm) return lstm_step(parts[0], state, weights, line);
  const Value product = linear(state.hidden, weights.hh, {}, line);
  return {nonlinearity(parts[0] + product, line), {}};
}

void require_options(std::int64_t hidden, bool bias, const std::optional<Init>& bias_init) {
  if (hidden < 1) throw Requirement{fmt::format("a hidden width of 1 or more, but {}", hidden)};
  if (!bias && bias_init) throw Requirement{"a bias for its bias_init, but bias is false"};
}

void require_state(std::string_view what, const Value& state, const Type& type) {
  if (!state.present() || state.type() == type) return;
  throw Requirement{
      fmt::format("a first {} {}, but {}", what, to_string(type), to_string(state.type()))};
}

bool passes(const std::string& name, std::span<const Value> operands, Line line,
            const std::function<void()>& check) {
  try {
    for (const Value& operand : operands) {
      if (operand.identity() == operands[0].identity()) continue;
      throw Requirement{fmt::format("operands of one graph, but of \"{}\" and \"{}\"",
                                    operands[0].identity()->name, operand.identity()->name)};
    }
    check();
  } catch (const Requirement& requirement) {
    mistake(operands[0].emitter(line), line, fmt::format("{} cannot be applied", name), operands,
            requirement);
    return false;
  }
  return true;
}

void require_present(const std::string& name, const Value& x, Line line) {
  if (x.present()) return;
  throw GraphError(
      {fmt::format("{}: {} has no operand that belongs to a graph\n"
                   "  way out    begin with Graph::input or Graph::parameter",
                   to_string(line), name)});
}

}  // namespace metronome::recurrent
