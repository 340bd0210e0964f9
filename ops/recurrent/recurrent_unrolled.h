// A recurrent layer written out: the input products of all steps ahead, then step after step, in
// one op where no row ends before the others.
#pragma once

#include <optional>
#include <vector>

#include "ops/recurrent/recurrent_step.h"

namespace metronome::recurrent {

/// True where libtorch and `RecurrentScan` know the step: of an rnn, with tanh or relu.
bool has_usual_steps(RecurrentKind kind, UnaryFunction nonlinearity);

/// One layer's steps in one direction.
struct OneDirection {
  RecurrentKind kind;
  bool reverse;
  UnaryFunction nonlinearity;
  Weights weights;  ///< those of the input are not read
  Values masks;     ///< of each step, where a row still runs: bool [N, 1]; or none
};

/// The hidden states in order of time, from the input's part of the gates [T, N, gates hidden].
/// Takes the first state from `state` and leaves the last one there. Nodes of step t lie under
/// `<t>/`.
Values run_steps(const OneDirection& steps, const Value& part, State& state, Line line);

/// The operands and options of a sequence. Weights: of layer 0, its second direction, layer 1, ...
struct SequenceOperands {
  RecurrentKind kind;
  std::int64_t hidden;
  bool bidirectional;
  bool batch_first;
  UnaryFunction nonlinearity;
  std::optional<Layer> between;  ///< what a layer hands to the next goes through it
  Value x;
  Value first_hidden;  ///< absent, as the next two: zeros, zeros, all steps
  Value first_cell;
  Value lengths;
  std::vector<Weights> weights;
};

/// The output, the last hidden states and an lstm's last cells; nothing if an operand cannot be
/// computed with, which is recorded. Nodes lie under `l<k>/`, or
/// `l<k>_reverse/`.
Values unroll(const SequenceOperands& sequence, Line line);

}  // namespace metronome::recurrent
