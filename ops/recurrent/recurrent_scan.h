// The steps of one recurrent layer in one direction as one op, whose kernel walks over time: a step
// of a small layer takes less than the launch of a kernel.
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

/// One layer in one direction, given the input's part of the gates. Operands: that part
/// [T, N, gates hidden]; the first hidden state [N, hidden], and of an lstm the first cell;
/// weight_hh [gates hidden, hidden]; of a gru, if it has biases, bias_hh [gates hidden], which the
/// others' input part contains. Results: the hidden states [T, N, hidden], the last one [N,
/// hidden], and an lstm's last cell. Saved: the gates after their nonlinearity [T, N, gates
/// hidden]; and [T, N, hidden], the cells of an lstm, of a gru the hidden part of its third gate.
struct RecurrentScan {
  static constexpr std::string_view name = "recurrent_scan";
  static constexpr int saved = 2;
  RecurrentKind kind = RecurrentKind::rnn;
  bool relu = false;     ///< an rnn's nonlinearity, in place of tanh
  bool reverse = false;  ///< from the last step to the first

  bool operator==(const RecurrentScan&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  double flops(std::span<const Type> in, std::span<const Type> out) const;
  Values vjp(const Vjp& v) const;
  /// The gates over the input's part of them, each element after it was read.
  std::vector<InPlace> in_place() const;
  /// Step by step; the nodes of step t lie under `<t>/`.
  Values lower(std::span<const Value> in) const;
  static std::vector<Case> cases();

  bool keeps_cell() const { return kind == RecurrentKind::lstm; }
  std::size_t results() const { return keeps_cell() ? 3 : 2; }
};

METRONOME_RULES(RecurrentScan);
METRONOME_CANDIDATES(RecurrentScan);
METRONOME_CUDA_CANDIDATES(RecurrentScan);

/// Operands: the gradients of the results that have one; the hidden states; the saved gates and the
/// other saved numbers; the first hidden state, and an lstm's first cell; weight_hh. Results: the
/// gradients of the input's part; of a gru also of the hidden part, which for others is the same,
/// [T, N, gates hidden]; of the first hidden state, and of an lstm's first cell.
struct RecurrentScanGrad {
  static constexpr std::string_view name = "recurrent_scan_grad";
  static constexpr bool differentiable = false;
  RecurrentScan scan;
  bool of_states = true;  ///< whether the hidden states have a gradient
  bool of_last = true;    ///< the last one
  bool of_cell = true;    ///< an lstm's last cell

  bool operator==(const RecurrentScanGrad&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  double flops(std::span<const Type> in, std::span<const Type> out) const;
  /// The gates' gradients over the gates, each element after it was read.
  std::vector<InPlace> in_place() const;
  static std::vector<Case> cases();

  /// The number of the hidden states among the operands.
  std::size_t states() const;
};

METRONOME_RULES(RecurrentScanGrad);
METRONOME_CANDIDATES(RecurrentScanGrad);
METRONOME_CUDA_CANDIDATES(RecurrentScanGrad);

/// The sizes of a scan, from its hidden states and its weight.
struct ScanSizes {
  ScanSizes(const Type& states, const Type& weight)
      : steps(states.shape[0]),
        rows(states.shape[1]),
        hidden(states.shape[2]),
        gates(weight.shape[0] / weight.shape[1]) {}

  std::int64_t steps, rows, hidden, gates;

  std::int64_t width() const { return gates * hidden; }
};

}  // namespace metronome
