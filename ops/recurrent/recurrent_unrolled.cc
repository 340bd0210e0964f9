#include "ops/recurrent/recurrent_unrolled.h"

#include <fmt/format.h>

#include <numeric>

#include "graph/emit/scope.h"
#include "ops/recurrent/recurrent_scan.h"

namespace metronome::recurrent {
namespace {

/// The value's part along the first dimension, without that dimension.
Value without_first(const Value& part, Line line) {
  if (part.poisoned()) return part;
  return part.reshape(Shape(part.shape().begin() + 1, part.shape().end()), line);
}

/// x [n, ...] as n values [...].
Values steps_apart(const Value& x, std::int64_t n, Line line) {
  Values parts = chunk(x, n, 0, line);
  for (Value& part : parts) part = without_first(part, line);
  return parts;
}

/// Layers and directions over one sequence.
struct UnrolledSequence : SequenceOperands {
  Line line;

  Emitter* emitter() const { return x.emitter(line); }
  bool keeps_cell() const { return kind == RecurrentKind::lstm; }
  std::int64_t steps() const { return x.size(batch_first ? 1 : 0); }
  std::int64_t rows() const { return x.size(batch_first ? 0 : 1); }
  std::int64_t directions() const { return bidirectional ? 2 : 1; }
  std::int64_t layers() const { return static_cast<std::int64_t>(weights.size()) / directions(); }

  State first_state(std::int64_t index) const {
    const auto of = [&](const Value& given) {
      if (!given.present()) {
        return make_constant(emitter(), 0, {x.element(), {rows(), hidden}}, line);
      }
      return without_first(given.slice(0, index, index + 1, line), line);
    };
    return {of(first_hidden), keeps_cell() ? of(first_cell) : Value()};
  }

  /// True where a row still runs: bool [T, N, 1].
  Value mask() const {
    std::vector<double> numbers(static_cast<std::size_t>(steps()));
    std::iota(numbers.begin(), numbers.end(), 0.0);
    const Value step =
        make_constant(emitter(), numbers, {lengths.element(), {steps(), 1, 1}}, line);
    return lengths.reshape({1, rows(), 1}, line) > step;
  }

  Value run_direction(const Value& in, std::int64_t layer, bool reverse, const Values& masks,
                      State& state) const;
  Values run() const;
};

/// One layer in one direction over `in` [T, N, features]: the hidden states. Takes the first state
/// from `state` and leaves the last one there. `masks`: of each step, or none.
Value UnrolledSequence::run_direction(const Value& in, std::int64_t layer, bool reverse,
                                      const Values& masks, State& state) const {
  const Weights& own = weights[static_cast<std::size_t>(layer * directions() + reverse)];
  const std::string name = fmt::format("l{}{}", layer, reverse ? "_reverse" : "");
  const PathScope place(emitter(), name, PathScope::Kind::layer);
  const Value part = input_part(kind, in, own, line);
  if (!masks.empty() || !has_usual_steps(kind, nonlinearity)) {
    return stack(run_steps({kind, reverse, nonlinearity, own, masks}, part, state, line), 0, line);
  }
  const RecurrentScan op{
      .kind = kind,
      .relu = kind == RecurrentKind::rnn && nonlinearity.function == Function::relu,
      .reverse = reverse};
  Values operands{part, state.hidden};
  if (keeps_cell()) operands.push_back(state.cell);
  operands.push_back(own.hh);
  if (kind == RecurrentKind::gru && own.bias_hh.present()) operands.push_back(own.bias_hh);
  const Values made = apply(make_op(op), operands, line, op.results());
  state = {made[1], keeps_cell() ? made[2] : Value()};
  return made[0];
}

Values UnrolledSequence::run() const {
  Value stream = batch_first ? x.transpose(0, 1, line) : x;
  Value runs;
  Values masks, hiddens, cells;
  if (lengths.present()) {
    runs = mask();
    if (runs.poisoned()) return {};
    masks = steps_apart(runs, steps(), line);
    // Not a number of a step that is not looked at may reach a gradient.
    stream = where(runs, stream, 0.0, line);
  }
  for (std::int64_t layer = 0; layer < layers(); ++layer) {
    Values streams;
    for (std::int64_t direction = 0; direction < directions(); ++direction) {
      State state = first_state(layer * directions() + direction);
      if (state.hidden.poisoned() || state.cell.poisoned()) return {};
      streams.push_back(run_direction(stream, layer, direction == 1, masks, state));
      hiddens.push_back(state.hidden);
      cells.push_back(state.cell);
    }
    stream = directions() == 1 ? streams[0] : concat(streams, -1, line);
    if (between && layer + 1 < layers()) stream = stream.through(*between, line);
  }
  if (runs.present()) stream = where(runs, stream, 0.0, line);
  if (batch_first) stream = stream.transpose(0, 1, line);
  Values results{stream, stack(hiddens, 0, line)};
  if (keeps_cell()) results.push_back(stack(cells, 0, line));
  return results;
}

}  // namespace

bool has_usual_steps(RecurrentKind kind, UnaryFunction nonlinearity) {
  return kind != RecurrentKind::rnn || nonlinearity.function == Function::tanh ||
         nonlinearity.function == Function::relu;
}

Values run_steps(const OneDirection& steps, const Value& part, State& state, Line line) {
  if (part.poisoned()) return {part};
  Emitter* const emitter = part.emitter(line);
  const std::int64_t count = part.size(0);
  std::vector<Values> parts;  // of each gate, of each step
  for (const Value& each : parts_of_gates(steps.kind, part, line)) {
    parts.push_back(steps_apart(each, count, line));
  }
  Values outputs(static_cast<std::size_t>(count));
  for (std::int64_t k = 0; k < count; ++k) {
    const auto t = static_cast<std::size_t>(steps.reverse ? count - 1 - k : k);
    const PathScope copy(emitter, static_cast<int>(t), true);
    Values now;
    for (const Values& of_gate : parts) now.push_back(of_gate[t]);
    State next = step(steps.kind, now, state, steps.weights, steps.nonlinearity, line);
    if (!steps.masks.empty()) {
      next.hidden = where(steps.masks[t], next.hidden, state.hidden, line);
      if (next.cell.present()) next.cell = where(steps.masks[t], next.cell, state.cell, line);
    }
    state = next;
    outputs[t] = state.hidden;
  }
  return outputs;
}

Values unroll(const SequenceOperands& sequence, Line line) {
  return UnrolledSequence{sequence, line}.run();
}

}  // namespace metronome::recurrent
