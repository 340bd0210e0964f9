// Single steps of recurrent layers, with parameters of their own.
#include <fmt/format.h>

#include <algorithm>

#include "graph/ir/error.h"
#include "ops/layers/recurrent_parts.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

using recurrent::State;

/// One step from `state`, whose absent parts are zeros.
State cell_step(RecurrentKind kind, std::int64_t hidden, const CellOptions& options,
                UnaryFunction nonlinearity, Value x, State state, Line line) {
  const std::string name = fmt::format("{}_cell", recurrent::name_of(kind));
  if (!x.present()) refuse_without_graph(name, line);
  Emitter* const emitter = x.emitter(line);
  const LineScope line_scope(emitter, line);
  const Value poisoned(emitter, ValueId{});
  const bool keeps_cell = kind == RecurrentKind::lstm;
  const State nothing{poisoned, keeps_cell ? poisoned : Value()};
  Values operands{x};
  for (const Value& given : {state.hidden, state.cell}) {
    if (given.present()) operands.push_back(given);
  }
  if (std::ranges::any_of(operands, [](const Value& v) { return v.poisoned(); })) return nothing;
  Type type{x.element(), {x.size(0), hidden}};
  const auto check = [&] {
    recurrent::require_options(hidden, options.bias, options.bias_init);
    require_floating(x.type());
    if (x.rank() != 2 || x.size(0) < 1 || x.size(1) < 1) {
      throw Requirement{
          fmt::format("an operand [N, in] of 1 or more each, but {}", to_string(x.type()))};
    }
    recurrent::require_state("hidden state", state.hidden, type);
    recurrent::require_state("cell", state.cell, type);
  };
  if (!recurrent::passes(name, operands, line, check)) return nothing;
  const PathScope scope(emitter, name, PathScope::Kind::layer);
  const recurrent::Weights weights =
      recurrent::make_weights(emitter, kind, x.type(), hidden, options, "", line);
  if (weights.poisoned()) return nothing;
  if (!state.hidden.present()) state.hidden = make_constant(emitter, 0, type, line);
  if (keeps_cell && !state.cell.present()) state.cell = make_constant(emitter, 0, type, line);
  const Values parts =
      recurrent::parts_of_gates(kind, recurrent::input_part(kind, x, weights, line), line);
  return recurrent::step(kind, parts, state, weights, nonlinearity, line);
}

}  // namespace

Value RecurrentCell::operator()(Value x, Line line) const { return (*this)(x, Value(), line); }

Value RecurrentCell::operator()(Value x, Value hidden, Line line) const {
  return cell_step(kind_, hidden_, options_, nonlinearity_, x, {hidden, {}}, line).hidden;
}

LstmState LstmCell::operator()(Value x, Line line) const { return (*this)(x, LstmState{}, line); }

LstmState LstmCell::operator()(Value x, const LstmState& state, Line line) const {
  const State next =
      cell_step(RecurrentKind::lstm, hidden_, options_, tanh, x, {state.hidden, state.cell}, line);
  return {next.hidden, next.cell};
}

RecurrentCell gru_cell(std::int64_t hidden, CellOptions options) {
  return {RecurrentKind::gru, hidden, std::move(options), tanh};
}

RecurrentCell rnn_cell(std::int64_t hidden, CellOptions options, UnaryFunction nonlinearity) {
  return {RecurrentKind::rnn, hidden, std::move(options), nonlinearity};
}

LstmCell lstm_cell(std::int64_t hidden, CellOptions options) {
  return {hidden, std::move(options)};
}

}  // namespace metronome
