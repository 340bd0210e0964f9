// One step of each kind of recurrent layer, as cells and sequences share it.
#pragma once

#include <span>

#include "ops/expr/functions.h"
#include "ops/recurrent/recurrent.h"

namespace metronome::recurrent {

struct Weights {
  Value ih;
  Value hh;
  Value bias_ih;  ///< absent, as the next, without a bias
  Value bias_hh;

  bool poisoned() const;
};

struct State {
  Value hidden;
  Value cell;  ///< absent but of an lstm
};

/// Returns the part of the gates that comes from x [..., in], [..., gates hidden]: one product for
/// any number of steps.
Value input_part(RecurrentKind kind, Value x, const Weights& weights, Line line);

/// That part as a step takes it: one value, or for a gru, whose reset gate acts on the hidden
/// product alone, one for each gate.
Values parts_of_gates(RecurrentKind kind, const Value& part, Line line);

/// The state after one step whose input parts are [N, ...].
State step(RecurrentKind kind, std::span<const Value> parts, const State& state,
           const Weights& weights, UnaryFunction nonlinearity, Line line);

}  // namespace metronome::recurrent
