#include "ops/recurrent/recurrent_step.h"

#include "graph/emit/scope.h"
#include "ops/matmul/matmul.h"

namespace metronome::recurrent {
namespace {

/// x W^T + bias; the bias may be absent.
Value linear_of(const Value& x, const Value& weight, const Value& bias, Line line) {
  if (!bias.present()) return apply(Linear{}, {x, weight}, line);
  return apply(Linear{}, {x, weight, bias}, line);
}

Value gru_step(std::span<const Value> parts, const Value& h, const Weights& w, Line line) {
  const Values hidden = chunk(linear_of(h, w.hh, w.bias_hh, line), 3, -1, line);
  const Value reset = sigmoid(parts[0] + hidden[0]), update = sigmoid(parts[1] + hidden[1]);
  const Value scaled = reset * hidden[2];
  const Value proposed = tanh(parts[2] + scaled);
  const Value kept = update * (h - proposed);
  return kept + proposed;
}

State lstm_step(const Value& part, const State& state, const Weights& w, Line line) {
  const Value product = linear_of(state.hidden, w.hh, {}, line);
  const Values gates = chunk(part + product, 4, -1, line);
  const Value input = sigmoid(gates[0]), forget = sigmoid(gates[1]), proposed = tanh(gates[2]);
  const Value output = sigmoid(gates[3]);
  const Value kept = forget * state.cell, added = input * proposed;
  const Value cell = kept + added;
  return {output * tanh(cell), cell};
}

}  // namespace

bool Weights::poisoned() const {
  return ih.poisoned() || hh.poisoned() || bias_ih.poisoned() || bias_hh.poisoned();
}

Value input_part(RecurrentKind kind, Value x, const Weights& weights, Line line) {
  if (kind == RecurrentKind::gru) return linear_of(x, weights.ih, weights.bias_ih, line);
  const Value bias =
      weights.bias_ih.present() ? weights.bias_ih + weights.bias_hh : weights.bias_ih;
  return linear_of(x, weights.ih, bias, line);
}

Values parts_of_gates(RecurrentKind kind, const Value& part, Line line) {
  if (kind == RecurrentKind::gru) return chunk(part, 3, -1, line);
  return {part};
}

State step(RecurrentKind kind, std::span<const Value> parts, const State& state,
           const Weights& weights, UnaryFunction nonlinearity, Line line) {
  if (kind == RecurrentKind::gru) return {gru_step(parts, state.hidden, weights, line), {}};
  if (kind == RecurrentKind::lstm) return lstm_step(parts[0], state, weights, line);
  const Value product = linear_of(state.hidden, weights.hh, {}, line);
  return {nonlinearity(parts[0] + product, line), {}};
}

}  // namespace metronome::recurrent
