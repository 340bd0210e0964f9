// Recurrent layers over sequences: the input products of all steps ahead, then step after step.
#include "ops/layers/recurrent.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/language/layers.h"
#include "ops/layers/recurrent_step.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

using recurrent::State;
using recurrent::Weights;

/// A layer at work on one sequence.
struct Sequence {
  RecurrentKind kind;
  std::int64_t hidden;
  const RecurrentOptions& options;
  UnaryFunction nonlinearity;
  Value x;  ///< as given
  const RecurrentStart& start;
  Line line;

  Emitter* emitter() const { return x.emitter(line); }
  std::string name() const { return std::string(recurrent::name_of(kind)); }
  bool keeps_cell() const { return kind == RecurrentKind::lstm; }
  std::int64_t steps() const { return x.size(options.batch_first ? 1 : 0); }
  std::int64_t rows() const { return x.size(options.batch_first ? 0 : 1); }
  std::int64_t directions() const { return options.bidirectional ? 2 : 1; }

  Values operands() const {
    Values given{x};
    for (const Value& v : {start.hidden, start.cell, start.lengths}) {
      if (v.present()) given.push_back(v);
    }
    return given;
  }

  Recurrent nothing() const {
    const Value poisoned(emitter(), ValueId{});
    return {poisoned, poisoned, keeps_cell() ? poisoned : Value()};
  }

  void check() const;
  Recurrent run() const;
  Values run_direction(const Value& in, std::int64_t layer, bool reverse, const Values& masks,
                       State& state) const;
  State first_state(std::int64_t index) const;
  Value mask() const;
};

void require_rows(const Value& lengths, std::int64_t rows) {
  if (!lengths.present()) return;
  if (is_floating(lengths.element()) || lengths.element() == bool_ ||
      lengths.shape() != Shape{rows}) {
    throw Requirement{
        fmt::format("lengths of i32 or i64 and of shape [{}], one for each row, but {}", rows,
                    to_string(lengths.type()))};
  }
}

void Sequence::check() const {
  recurrent::require_options(hidden, options.bias, options.bias_init);
  if (options.layers < 1) {
    throw Requirement{fmt::format("1 layer or more, but {}", options.layers)};
  }
  require(unless_share("dropout", options.dropout));
  if (options.dropout > 0 && options.layers == 1) {
    throw Requirement{"2 layers or more for a dropout between them, but 1",
                      "for a dropout behind the last layer: through(mt::dropout(p))"};
  }
  require_floating(x.type());
  if (x.rank() != 3 || std::ranges::min(x.shape()) < 1) {
    throw Requirement{fmt::format("an operand {} of 1 or more each, but {}",
                                  options.batch_first ? "[N, T, in]" : "[T, N, in]",
                                  to_string(x.type()))};
  }
  if (steps() > kMostCopies) {
    throw Requirement{fmt::format("{} steps or fewer, but {}", kMostCopies, steps())};
  }
  const Type states{x.element(), {options.layers * directions(), rows(), hidden}};
  recurrent::require_state("hidden state", start.hidden, states);
  if (start.cell.present() && !keeps_cell()) {
    throw Requirement{fmt::format("no cell, which a {} does not keep", name())};
  }
  recurrent::require_state("cell", start.cell, states);
  require_rows(start.lengths, rows());
}

/// The value's part `index` of n along the first dimension, without that dimension.
Value without_first(const Value& part, Line line) {
  if (part.poisoned()) return part;
  return part.reshape(Shape(part.shape().begin() + 1, part.shape().end()), line);
}

/// x [n, ...] as n values [...].
Values apart(const Value& x, std::int64_t n, Line line) {
  Values parts = chunk(x, n, 0, line);
  for (Value& part : parts) part = without_first(part, line);
  return parts;
}

State Sequence::first_state(std::int64_t index) const {
  const auto of = [&](const Value& given) {
    if (!given.present()) return make_constant(emitter(), 0, {x.element(), {rows(), hidden}}, line);
    return without_first(given.slice(0, index, index + 1, line), line);
  };
  return {of(start.hidden), keeps_cell() ? of(start.cell) : Value()};
}

/// Where a row still runs: bool [T, N, 1].
Value Sequence::mask() const {
  std::vector<double> numbers(static_cast<std::size_t>(steps()));
  std::iota(numbers.begin(), numbers.end(), 0.0);
  const Value step =
      make_constant(emitter(), numbers, {start.lengths.element(), {steps(), 1, 1}}, line);
  return start.lengths.reshape({1, rows(), 1}, line) > step;
}

/// One layer in one direction over `in` [T, N, features]: the hidden states in order of time. Takes
/// the first state from `state` and leaves the last one there. `masks`: of each step, or none.
Values Sequence::run_direction(const Value& in, std::int64_t layer, bool reverse,
                               const Values& masks, State& state) const {
  const std::string suffix = fmt::format("l{}{}", layer, reverse ? "_reverse" : "");
  const Weights weights = recurrent::make_weights(
      emitter(), kind, in.type(), hidden, {options.bias, options.weight_init, options.bias_init},
      "_" + suffix, line);
  for (const Value& w : {weights.ih, weights.hh, weights.bias_ih, weights.bias_hh}) {
    if (w.poisoned()) return {};
  }
  const PathScope place(emitter(), suffix, PathScope::Kind::layer);
  std::vector<Values> parts;  // of each gate, of each step
  for (const Value& part : recurrent::input_parts(kind, in, weights, line)) {
    parts.push_back(apart(part, steps(), line));
  }
  Values outputs(static_cast<std::size_t>(steps()));
  for (std::int64_t k = 0; k < steps(); ++k) {
    const auto t = static_cast<std::size_t>(reverse ? steps() - 1 - k : k);
    const PathScope copy(emitter(), static_cast<int>(t), true);
    Values now;
    for (const Values& part : parts) now.push_back(part[t]);
    State next = recurrent::step(kind, now, state, weights, nonlinearity, line);
    if (!masks.empty()) {
      next.hidden = where(masks[t], next.hidden, state.hidden, line);
      if (keeps_cell()) next.cell = where(masks[t], next.cell, state.cell, line);
    }
    state = next;
    outputs[t] = state.hidden;
  }
  return outputs;
}

Recurrent Sequence::run() const {
  const PathScope scope(emitter(), name(), PathScope::Kind::layer);
  Value stream = options.batch_first ? x.transpose(0, 1, line) : x;
  Value mask;
  Values masks, hiddens, cells;
  if (start.lengths.present()) {
    mask = this->mask();
    if (mask.poisoned()) return nothing();
    masks = apart(mask, steps(), line);
  }
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    Values streams;
    for (std::int64_t direction = 0; direction < directions(); ++direction) {
      State state = first_state(layer * directions() + direction);
      if (state.hidden.poisoned() || state.cell.poisoned()) return nothing();
      const Values outputs = run_direction(stream, layer, direction == 1, masks, state);
      if (outputs.empty()) return nothing();
      streams.push_back(stack(outputs, 0, line));
      hiddens.push_back(state.hidden);
      cells.push_back(state.cell);
    }
    stream = directions() == 1 ? streams[0] : concat(streams, -1, line);
    if (options.dropout > 0 && layer + 1 < options.layers) {
      stream = stream.through(dropout(options.dropout), line);
    }
  }
  if (mask.present()) stream = where(mask, stream, 0.0, line);
  if (options.batch_first) stream = stream.transpose(0, 1, line);
  return {stream, stack(hiddens, 0, line), keeps_cell() ? stack(cells, 0, line) : Value()};
}

}  // namespace

Recurrent RecurrentLayer::operator()(Value x, Line line) const {
  return (*this)(x, RecurrentStart{}, line);
}

Recurrent RecurrentLayer::operator()(Value x, const RecurrentStart& start, Line line) const {
  recurrent::require_present(std::string(recurrent::name_of(kind_)), x, line);
  const Sequence sequence{kind_, hidden_, options_, nonlinearity_, x, start, line};
  const LineScope line_scope(x.emitter(line), line);
  const Values operands = sequence.operands();
  if (std::ranges::any_of(operands, [](const Value& v) { return v.poisoned(); })) {
    return sequence.nothing();
  }
  const auto check = [&] { sequence.check(); };
  if (!recurrent::passes(sequence.name(), operands, line, check)) return sequence.nothing();
  return sequence.run();
}

RecurrentLayer gru(std::int64_t hidden, RecurrentOptions options) {
  return {RecurrentKind::gru, hidden, std::move(options), tanh};
}

RecurrentLayer lstm(std::int64_t hidden, RecurrentOptions options) {
  return {RecurrentKind::lstm, hidden, std::move(options), tanh};
}

RecurrentLayer rnn(std::int64_t hidden, RecurrentOptions options, UnaryFunction nonlinearity) {
  return {RecurrentKind::rnn, hidden, std::move(options), nonlinearity};
}

}  // namespace metronome
