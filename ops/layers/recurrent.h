// Recurrent layers over sequences, and their single steps as cells. Formulas, order of gates, names
// of parameters and initialisation are PyTorch's (torch.nn.GRU, LSTM, RNN, GRUCell, ...).
//
//   x.through(gru(512))                          the outputs of all steps
//   gru(512)(x).hidden                           the last state, [1, N, 512]
//   lstm(512, {.layers = 2, .batch_first = true})(x, {.hidden = h, .cell = c, .lengths = n})
//   gru_cell(512)(x, h)                          one step
//
// As of all layers: each call makes fresh parameters at the current path (`gru/weight_ih_l0`), of
// the element type of x, and records a mistake with the line of the caller. All parameters begin
// uniform in +-1/sqrt(hidden).
#pragma once

#include <cstdint>
#include <optional>

#include "graph/ir/init.h"
#include "graph/ir/line.h"
#include "graph/ir/value.h"
#include "ops/expr/functions.h"
#include "ops/recurrent/recurrent_kind.h"

namespace metronome {

// ---- sequences ---------------------------------------------------------------------------------

struct RecurrentOptions {
  std::int64_t layers = 1;     ///< each reads the outputs of the one before
  bool bias = true;            ///< both biases, of the input and of the hidden product
  double dropout = 0;          ///< probability, on what a layer hands to the next
  bool bidirectional = false;  ///< D = 2 directions; the second reads from the end
  bool batch_first = false;    ///< x and output are [N, T, ...] in place of [T, N, ...]
  std::optional<Init> weight_init = {};
  std::optional<Init> bias_init = {};
};

/// The state that a sequence begins with, and the lengths of its rows.
struct RecurrentStart {
  Value hidden = {};  ///< [layers D, N, hidden], as `Recurrent::hidden`; absent: zeros
  Value cell = {};    ///< the same, of an lstm
  /// i32 or i64 [N]; absent: T for all. A row's steps from its length on are not looked at: its
  /// outputs are zero there, its last state is that of its last step, and the second direction
  /// begins at its last step, as with PyTorch's packed sequences. A length of 0 or less leaves the
  /// state as it was; one above T counts as T.
  Value lengths = {};
};

/// The results of a recurrent layer. It converts to its output, so the layer is a `Layer` too.
struct Recurrent {
  Value output;  ///< of the last layer: [T, N, D hidden], or [N, T, D hidden] with batch_first
  Value
      hidden;  ///< last states [layers D, N, hidden]: layer 0 forward, layer 0 reverse, layer 1 ...
  Value cell;  ///< the same, of an lstm; else absent

  operator Value() const { return output; }  // NOLINT: so that it serves as a Layer
};

/// The layer that `gru`, `lstm` and `rnn` make. Parameters: weight_ih_l<k> [gates hidden, in],
/// weight_hh_l<k> [gates hidden, hidden], bias_ih_l<k>, bias_hh_l<k> [gates hidden]; those of the
/// second direction end in `_reverse`. It makes one node or, where libtorch has no such call
/// (lengths, dropout, another nonlinearity), the nodes that the node becomes when it is compiled:
/// those of step t lie under `l<k>/<t>/`, or `l<k>_reverse/<t>/`.
class RecurrentLayer {
 public:
  RecurrentLayer(RecurrentKind kind, std::int64_t hidden, RecurrentOptions options,
                 UnaryFunction nonlinearity)
      : kind_(kind), hidden_(hidden), options_(std::move(options)), nonlinearity_(nonlinearity) {}

  /// x is f32 or f64 [T, N, in], or [N, T, in] with batch_first. T steps become nodes of the
  /// compiled graph.
  Recurrent operator()(Value x, Line line = Line::here()) const;
  Recurrent operator()(Value x, const RecurrentStart& start, Line line = Line::here()) const;

 private:
  RecurrentKind kind_;
  std::int64_t hidden_;
  RecurrentOptions options_;
  UnaryFunction nonlinearity_;
};

/// r = sigmoid(W_ir x + b_ir + W_hr h + b_hr), z likewise, n = tanh(W_in x + b_in + r (W_hn h +
/// b_hn)), h' = (1 - z) n + z h. Rows of the weights: r, z, n. Cho et al. (2014), in cuDNN's form.
RecurrentLayer gru(std::int64_t hidden, RecurrentOptions options = {});
/// i, f, o = sigmoid(W_i. x + b_i. + W_h. h + b_h.), g = tanh(...), c' = f c + i g, h' = o
/// tanh(c'). Rows of the weights: i, f, g, o. Hochreiter and Schmidhuber (1997), with forget gates.
RecurrentLayer lstm(std::int64_t hidden, RecurrentOptions options = {});
/// h' = nonlinearity(W_ih x + b_ih + W_hh h + b_hh). Elman (1990).
RecurrentLayer rnn(std::int64_t hidden, RecurrentOptions options = {},
                   UnaryFunction nonlinearity = tanh);

// ---- single steps ------------------------------------------------------------------------------

struct CellOptions {
  bool bias = true;
  std::optional<Init> weight_init = {};
  std::optional<Init> bias_init = {};
};

/// The cell that `gru_cell` and `rnn_cell` make. Parameters: weight_ih, weight_hh, bias_ih,
/// bias_hh.
class RecurrentCell {
 public:
  RecurrentCell(RecurrentKind kind, std::int64_t hidden, CellOptions options,
                UnaryFunction nonlinearity)
      : kind_(kind), hidden_(hidden), options_(std::move(options)), nonlinearity_(nonlinearity) {}

  /// The next state [N, hidden] of x [N, in]; without a state, of zeros.
  Value operator()(Value x, Line line = Line::here()) const;
  Value operator()(Value x, Value hidden, Line line = Line::here()) const;

 private:
  RecurrentKind kind_;
  std::int64_t hidden_;
  CellOptions options_;
  UnaryFunction nonlinearity_;
};

/// One step: `gru_cell(512)(x, h)` of x [N, in] and h [N, hidden]; without h it begins at zeros.
RecurrentCell gru_cell(std::int64_t hidden, CellOptions options = {});
RecurrentCell rnn_cell(std::int64_t hidden, CellOptions options = {},
                       UnaryFunction nonlinearity = tanh);

/// The two states of an lstm_cell, each [N, hidden].
struct LstmState {
  Value hidden;
  Value cell;

  operator Value() const { return hidden; }  // NOLINT: so that the cell serves as a Layer
};

/// The cell that `lstm_cell` makes: `auto [h, c] = lstm_cell(512)(x, {h0, c0})`. Parameters as
/// above.
class LstmCell {
 public:
  LstmCell(std::int64_t hidden, CellOptions options)
      : hidden_(hidden), options_(std::move(options)) {}

  LstmState operator()(Value x, Line line = Line::here()) const;
  LstmState operator()(Value x, const LstmState& state, Line line = Line::here()) const;

 private:
  std::int64_t hidden_;
  CellOptions options_;
};

/// One step: `auto [h, c] = lstm_cell(512)(x, {h0, c0})`; without a state it begins at zeros.
LstmCell lstm_cell(std::int64_t hidden, CellOptions options = {});

}  // namespace metronome
