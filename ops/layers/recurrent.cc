// Recurrent layers over sequences: their weights, and the op that runs them.
#include "ops/layers/recurrent.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/language/layers.h"
#include "ops/layers/recurrent_parts.h"
#include "ops/recurrent/recurrent_unrolled.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

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
  std::vector<Weights> make_weights() const;
  bool as_one_call() const;
  /// The results of a sequence of no steps.
  Recurrent first_states() const;
  Recurrent run() const;
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
  if (x.rank() != 3 || rows() < 1 || x.size(-1) < 1) {
    throw Requirement{fmt::format("an operand {} of 1 or more rows and numbers, but {}",
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

/// Makes the weights of layer 0, of its second direction, of layer 1, ...; the last one is poisoned
/// after a mistake.
std::vector<Weights> Sequence::make_weights() const {
  std::vector<Weights> all;
  Type in = x.type();
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    for (const char* suffix : {"", "_reverse"}) {
      if (*suffix != 0 && !options.bidirectional) continue;
      all.push_back(recurrent::make_weights(emitter(), kind, in, hidden,
                                            {options.bias, options.weight_init, options.bias_init},
                                            fmt::format("_l{}{}", layer, suffix), line));
      if (all.back().poisoned()) return all;
    }
    in.shape.back() = directions() * hidden;
  }
  return all;
}

/// Whether libtorch has a call for it, with the same random numbers.
bool Sequence::as_one_call() const {
  return recurrent::has_usual_steps(kind, nonlinearity) && options.dropout == 0 &&
         !start.lengths.present();
}

Recurrent Sequence::first_states() const {
  const std::int64_t width = directions() * hidden;
  const auto zeros_of = [&](Shape shape) {
    return make_constant(emitter(), 0, {x.element(), std::move(shape)}, line);
  };
  const auto state = [&](const Value& given) {
    return given.present() ? given : zeros_of({options.layers * directions(), rows(), hidden});
  };
  return {zeros_of(options.batch_first ? Shape{rows(), 0, width} : Shape{0, rows(), width}),
          state(start.hidden), keeps_cell() ? state(start.cell) : Value()};
}

Recurrent Sequence::run() const {
  const PathScope scope(emitter(), name(), PathScope::Kind::layer);
  const std::vector<Weights> weights = make_weights();
  if (weights.back().poisoned()) return nothing();
  if (steps() == 0) return first_states();
  Values results;
  if (as_one_call()) {
    const RecurrentSequence op{
        .kind = kind,
        .layers = options.layers,
        .bias = options.bias,
        .bidirectional = options.bidirectional,
        .batch_first = options.batch_first,
        .relu = kind == RecurrentKind::rnn && nonlinearity.function == Function::relu,
        .first_hidden = start.hidden.present(),
        .first_cell = start.cell.present()};
    Values in = operands();
    for (const Weights& w : weights) {
      for (const Value& part : {w.ih, w.hh, w.bias_ih, w.bias_hh}) {
        if (part.present()) in.push_back(part);
      }
    }
    results = apply(make_op(op), in, line, op.results());
  } else {
    std::optional<Layer> between;
    if (options.dropout > 0) between = dropout(options.dropout);
    results =
        recurrent::unroll({kind, hidden, options.bidirectional, options.batch_first, nonlinearity,
                           std::move(between), x, start.hidden, start.cell, start.lengths, weights},
                          line);
  }
  if (results.empty()) return nothing();
  return {results[0], results[1], keeps_cell() ? results[2] : Value()};
}

}  // namespace

Recurrent RecurrentLayer::operator()(Value x, Line line) const {
  return (*this)(x, RecurrentStart{}, line);
}

Recurrent RecurrentLayer::operator()(Value x, const RecurrentStart& start, Line line) const {
  if (!x.present()) refuse_without_graph(recurrent::name_of(kind_), line);
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
