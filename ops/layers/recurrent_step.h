// One step of each kind of recurrent layer, as cells and sequences share it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "graph/emit/scope.h"
#include "ops/layers/recurrent.h"

namespace metronome::recurrent {

std::string_view name_of(RecurrentKind kind);  ///< "rnn", "gru", "lstm"
std::int64_t gates_of(RecurrentKind kind);     ///< blocks of `hidden` rows that a weight has

struct Weights {
  Value ih;
  Value hh;
  Value bias_ih;  ///< absent, as the next, without a bias
  Value bias_hh;
};

/// Makes them at the current path as "weight_ih" + suffix, ... for inputs of `in` features.
Weights make_weights(Emitter* emitter, RecurrentKind kind, Type input, std::int64_t hidden,
                     const CellOptions& options, const std::string& suffix, Line line);

struct State {
  Value hidden;
  Value cell;  ///< absent but of an lstm
};

/// What x [..., in] adds to the gates: for any number of steps in one product. One value, or for a
/// gru, whose reset gate acts on the hidden product alone, one for each gate.
Values input_parts(RecurrentKind kind, Value x, const Weights& weights, Line line);

/// The state after one step whose input parts are [N, ...].
State step(RecurrentKind kind, std::span<const Value> parts, const State& state,
           const Weights& weights, UnaryFunction nonlinearity, Line line);

/// Throws Requirement: `hidden`, and the options that cells and sequences have both.
void require_options(std::int64_t hidden, bool bias, const std::optional<Init>& bias_init);

/// Throws Requirement where `state`, if present, is not of `type`; `what` names it.
void require_state(std::string_view what, const Value& state, const Type& type);

/// Whether the operands, all present and not poisoned, are of one graph and `check` throws no
/// Requirement; else records the mistake. `operands` begin with x.
bool passes(const std::string& name, std::span<const Value> operands, Line line,
            const std::function<void()>& check);

/// Throws GraphError where x is absent, with the name of the layer.
void require_present(const std::string& name, const Value& x, Line line);

}  // namespace metronome::recurrent
