// A recurrent layer written out: the input products of all steps ahead, then step after step.
#pragma once

#include <optional>
#include <vector>

#include "ops/recurrent/recurrent_step.h"

namespace metronome::recurrent {

/// The operands and options of a sequence. Weights: of layer 0, its second direction, layer 1, ...
struct Unrolling {
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
/// computed with, which is recorded. Nodes of step t lie under `l<k>/<t>/`, or
/// `l<k>_reverse/<t>/`.
Values unrolled(const Unrolling& sequence, Line line);

}  // namespace metronome::recurrent
