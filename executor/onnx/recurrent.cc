// Recurrent layers: an operator of ONNX for each layer, with both of its directions.
//
//                PyTorch, ours     ONNX
//   gru          r z n             z r h      linear_before_reset: r times (R h + b)
//   lstm         i f g o           i o f c
//   weights      [gates h, in]     [directions, gates h, in]
//   biases       two of [gates h]  [directions, 2 gates h]
//   output       [T, N, D h]       [T, D, N, h]
#include "ops/recurrent/recurrent.h"

#include "executor/onnx/mappings.h"

namespace metronome::onnx {
namespace {

/// The place that each gate of ONNX has among ours.
std::vector<std::int64_t> order_of(RecurrentKind kind) {
  if (kind == RecurrentKind::gru) return {1, 0, 2};
  if (kind == RecurrentKind::lstm) return {0, 3, 1, 2};
  return {0};
}

std::string_view operator_of(RecurrentKind kind) {
  return kind == RecurrentKind::gru ? "GRU" : kind == RecurrentKind::lstm ? "LSTM" : "RNN";
}

std::string join(NodeWriter& writer, Names parts, std::int64_t axis) {
  if (parts.size() == 1) return parts[0];
  return writer.call("Concat", std::move(parts), {{"axis", axis}});
}

class LayerWriter {
 public:
  LayerWriter(const RecurrentSequence& op, NodeWriter& writer) : op_(op), writer_(writer) {
    hidden_ = writer.type(op.first_weight() + 1).shape[1];
  }

  /// Layer `layer` of x [T, N, in]; its last states join `states`.
  std::string write(const std::string& x, std::int64_t layer, std::vector<Names>& states) const {
    Names operands{x, weights(layer, 0), weights(layer, 1), op_.bias ? biases(layer) : "", ""};
    operands.push_back(op_.first_hidden ? first_state(1, layer) : "");
    if (op_.keeps_cell()) {
      operands.push_back(op_.first_cell ? first_state(op_.first_hidden ? 2 : 1, layer) : "");
    }
    while (operands.back().empty()) operands.pop_back();
    Attributes attributes{
        {"hidden_size", hidden_},
        {"direction", std::string(op_.bidirectional ? "bidirectional" : "forward")}};
    if (op_.kind == RecurrentKind::gru) {
      attributes.push_back({"linear_before_reset", std::int64_t{1}});
    }
    const Names results = writer_.call_all(operator_of(op_.kind), std::move(operands),
                                           with_relu(std::move(attributes)), op_.results());
    for (std::size_t i = 1; i < results.size(); ++i) states[i - 1].push_back(results[i]);
    const std::string rows = writer_.transpose(results[0], {0, 2, 1, 3});
    return writer_.call("Reshape", {rows, writer_.integers({0, 0, -1})});
  }

 private:
  /// With the attribute for an rnn's nonlinearity.
  Attributes with_relu(Attributes attributes) const {
    if (!op_.relu) return attributes;
    attributes.push_back(
        {"activations", Names(static_cast<std::size_t>(op_.directions()), "Relu")});
    return attributes;
  }

  const std::string& operand(std::int64_t layer, std::int64_t direction, std::size_t which) const {
    const auto cell = static_cast<std::size_t>(layer * op_.directions() + direction);
    return writer_.in(op_.first_weight() + cell * (op_.bias ? 4 : 2) + which);
  }

  /// A weight or bias with its gates in ONNX's order.
  std::string reorder(const std::string& x) const {
    Names gates;
    const std::vector<std::int64_t> order = order_of(op_.kind);
    if (order.size() == 1) return x;
    for (const std::int64_t gate : order) {
      gates.push_back(writer_.slice(x, 0, gate * hidden_, (gate + 1) * hidden_));
    }
    return join(writer_, std::move(gates), 0);
  }

  std::string weights(std::int64_t layer, std::size_t which) const {
    Names directions;
    for (std::int64_t d = 0; d < op_.directions(); ++d) {
      directions.push_back(writer_.unsqueeze(reorder(operand(layer, d, which)), 0));
    }
    return join(writer_, std::move(directions), 0);
  }

  std::string biases(std::int64_t layer) const {
    Names directions;
    for (std::int64_t d = 0; d < op_.directions(); ++d) {
      const Names both{reorder(operand(layer, d, 2)), reorder(operand(layer, d, 3))};
      directions.push_back(writer_.unsqueeze(join(writer_, both, 0), 0));
    }
    return join(writer_, std::move(directions), 0);
  }

  std::string first_state(std::size_t operand, std::int64_t layer) const {
    const std::int64_t begin = layer * op_.directions();
    return writer_.slice(writer_.in(operand), 0, begin, begin + op_.directions());
  }

  const RecurrentSequence& op_;
  NodeWriter& writer_;
  std::int64_t hidden_;
};

Names write_recurrent(const RecurrentSequence& op, NodeWriter& writer) {
  const LayerWriter layers(op, writer);
  std::vector<Names> states(op.results() - 1);
  std::string x = op.batch_first ? writer.transpose(writer.in(0), {1, 0, 2}) : writer.in(0);
  for (std::int64_t layer = 0; layer < op.layers; ++layer) x = layers.write(x, layer, states);
  Names results{op.batch_first ? writer.transpose(x, {1, 0, 2}) : x};
  for (Names& last : states) results.push_back(join(writer, std::move(last), 0));
  return results;
}

}  // namespace

std::span<const Mapping> recurrent_mappings() {
  static const Mapping kMappings[] = {mapping<RecurrentSequence, write_recurrent>()};
  return kMappings;
}

}  // namespace metronome::onnx
