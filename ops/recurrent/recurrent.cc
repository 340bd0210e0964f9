#include "ops/recurrent/recurrent.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/recurrent/recurrent_unrolled.h"
#include "ops/rules/require.h"

namespace metronome {

std::string_view recurrent::name_of(RecurrentKind kind) {
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

std::int64_t recurrent::gates_of(RecurrentKind kind) {
  if (kind == RecurrentKind::rnn) return 1;
  return kind == RecurrentKind::gru ? 3 : 4;
}

namespace {

/// The types of all operands of a sequence over x whose states are `hidden` wide.
Types recurrent_operands(const RecurrentSequence& op, const Type& x, std::int64_t hidden) {
  const std::int64_t rows = x.shape[op.batch_first ? 0 : 1];
  const std::int64_t gates = recurrent::gates_of(op.kind) * hidden;
  Types types{x};
  types.resize(op.first_weight(), {x.element, {op.layers * op.directions(), rows, hidden}});
  for (std::int64_t layer = 0; layer < op.layers; ++layer) {
    const std::int64_t in = layer == 0 ? x.shape[2] : op.directions() * hidden;
    for (std::int64_t direction = 0; direction < op.directions(); ++direction) {
      types.push_back({x.element, {gates, in}});
      types.push_back({x.element, {gates, hidden}});
      if (op.bias) types.resize(types.size() + 2, {x.element, {gates}});
    }
  }
  return types;
}

}  // namespace

std::string RecurrentSequence::attributes() const {
  return fmt::format("layers={}{}{}{}{}{}{}", layers, bias ? "" : ", no bias",
                     bidirectional ? ", bidirectional" : "", batch_first ? ", batch_first" : "",
                     relu ? ", relu" : "", first_hidden ? ", first_hidden" : "",
                     first_cell ? ", first_cell" : "");
}

std::size_t RecurrentSequence::first_weight() const {
  return 1 + static_cast<std::size_t>(first_hidden) + static_cast<std::size_t>(first_cell);
}

Types RecurrentSequence::infer(std::span<const Type> in) const {
  if (layers < 1) throw Requirement{fmt::format("1 layer or more, but {}", layers)};
  if (first_cell && !keeps_cell()) {
    throw Requirement{fmt::format("no cell, which a {} does not keep", name)};
  }
  if (relu && kind != RecurrentKind::rnn) {
    throw Requirement{fmt::format("an rnn for its relu, but {}", name)};
  }
  const std::int64_t weights = layers * directions() * (bias ? 4 : 2);
  if (in.size() != first_weight() + static_cast<std::size_t>(weights)) {
    throw Requirement{fmt::format("{} operands in place of {}",
                                  first_weight() + static_cast<std::size_t>(weights), in.size())};
  }
  const Type &x = in[0], &hidden_weight = in[first_weight() + 1];
  require_floating(x);
  if (x.rank() != 3 || std::ranges::min(x.shape) < 1) {
    throw Requirement{fmt::format("an operand {} of 1 or more each, but {}",
                                  batch_first ? "[N, T, in]" : "[T, N, in]", to_string(x))};
  }
  const std::int64_t steps = x.shape[batch_first ? 1 : 0], rows = x.shape[batch_first ? 0 : 1];
  if (steps > kMostCopies) {
    throw Requirement{fmt::format("{} steps or fewer, but {}", kMostCopies, steps)};
  }
  if (hidden_weight.rank() != 2 || hidden_weight.shape[1] < 1) {
    throw Requirement{fmt::format("a weight_hh [gates hidden, hidden] of 1 or more each, but {}",
                                  to_string(hidden_weight))};
  }
  const std::int64_t hidden = hidden_weight.shape[1];
  const Types right = recurrent_operands(*this, x, hidden);
  for (std::size_t i = 1; i < in.size(); ++i) {
    if (in[i] == right[i]) continue;
    throw Requirement{
        fmt::format("operand {} as {}, but {}", i, to_string(right[i]), to_string(in[i]))};
  }
  // The widest value that it becomes, so that what is too large is told where it is declared.
  require_possible({x.element, {steps, rows, recurrent::gates_of(kind) * hidden}});
  Shape output{steps, rows, directions() * hidden};
  if (batch_first) std::swap(output[0], output[1]);
  Types types{{x.element, output}};
  types.resize(results(), {x.element, {layers * directions(), rows, hidden}});
  return types;
}

Values RecurrentSequence::lower(std::span<const Value> in) const {
  std::size_t next = 0;
  const auto take = [&](bool given) { return given ? in[next++] : Value(); };
  recurrent::SequenceOperands sequence{.kind = kind,
                                       .hidden = in[first_weight() + 1].size(1),
                                       .bidirectional = bidirectional,
                                       .batch_first = batch_first,
                                       .nonlinearity = relu ? metronome::relu : tanh,
                                       .between = {},
                                       .x = take(true),
                                       .first_hidden = take(first_hidden),
                                       .first_cell = take(first_cell),
                                       .lengths = {},
                                       .weights = {}};
  while (next < in.size()) {
    sequence.weights.push_back({take(true), take(true), take(bias), take(bias)});
  }
  return recurrent::unroll(sequence, {});
}

std::vector<Case> RecurrentSequence::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, RecurrentSequence op, Shape x, std::int64_t hidden) {
    Case c{.name = std::move(name), .op = make_op(op), .inputs = {}, .sums = true};
    for (const Type& type : recurrent_operands(op, {f32, std::move(x)}, hidden)) {
      c.inputs.push_back({type, {.low = -0.8, .high = 0.8}});
    }
    cases.push_back(std::move(c));
  };
  for (const RecurrentKind kind : {RecurrentKind::rnn, RecurrentKind::gru, RecurrentKind::lstm}) {
    const bool cell = kind == RecurrentKind::lstm;
    add("one step of one row", {.kind = kind}, {1, 1, 1}, 1);
    add("one layer", {.kind = kind, .first_hidden = true, .first_cell = cell}, {3, 2, 3}, 2);
    add("no bias, batch first", {.kind = kind, .bias = false, .batch_first = true}, {5, 3, 7}, 4);
    add("both directions of two layers",
        {.kind = kind,
         .layers = 2,
         .bidirectional = true,
         .first_hidden = true,
         .first_cell = cell},
        {4, 3, 5}, 6);
  }
  add("relu", {.kind = RecurrentKind::rnn, .relu = true}, {4, 3, 5}, 6);
  add("a cell alone", {.kind = RecurrentKind::lstm, .first_cell = true}, {3, 2, 3}, 2);
  add("wide", {.kind = RecurrentKind::lstm, .batch_first = true}, {17, 3, 33}, 32);
  return cases;
}

}  // namespace metronome
