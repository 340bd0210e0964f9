// A recurrent layer over a whole sequence: a composite of its steps. ops/layers/recurrent.h has the
// layers that users call, and the formulas.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/recurrent/recurrent_kind.h"
#include "ops/rules/rules.h"

namespace metronome {

namespace recurrent {

std::string_view name_of(RecurrentKind kind);  ///< "rnn", "gru", "lstm"
std::int64_t gates_of(RecurrentKind kind);     ///< blocks of `hidden` rows that a weight has

}  // namespace recurrent

/// All layers and directions over all steps, as one call of libtorch's: rows of one length, no
/// dropout, and of rnns those with tanh or relu. Operands: x [T, N, in], or [N, T, in] with
/// batch_first; the first states [layers D, N, hidden] that are given, D being the number of
/// directions; then weight_ih, weight_hh, bias_ih and bias_hh, without biases the first two, of
/// layer 0, of its second direction, of layer 1, ... Results: output [T, N, D hidden] or [N, T, D
/// hidden], the last hidden states [layers D, N, hidden], and an lstm's last cells, likewise.
struct RecurrentSequence {
  RecurrentKind kind = RecurrentKind::rnn;
  std::int64_t layers = 1;
  bool bias = true;
  bool bidirectional = false;
  bool batch_first = false;
  bool relu = false;          ///< an rnn's nonlinearity, in place of tanh
  bool first_hidden = false;  ///< whether it is an operand; else zeros
  bool first_cell = false;    ///< the same, of an lstm
  std::string_view name = recurrent::name_of(kind);

  bool operator==(const RecurrentSequence&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values lower(std::span<const Value> in) const;
  static std::vector<Case> cases();

  std::int64_t directions() const { return bidirectional ? 2 : 1; }
  bool keeps_cell() const { return kind == RecurrentKind::lstm; }
  std::size_t results() const { return keeps_cell() ? 3 : 2; }
  /// The number of the first weight among the operands.
  std::size_t first_weight() const;
};

METRONOME_COMPOSITE(RecurrentSequence);

namespace recurrent {

/// Weights on a GPU, of one layer's operands, as cuDNN wants them; nothing where libtorch does not
/// call cuDNN, or an operand is undefined.
void flatten(const RecurrentSequence& layer, const Tensors& operands);

}  // namespace recurrent

}  // namespace metronome
