#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_cudnn_rnn_flatten_weight.h>
#include <ATen/ops/_use_cudnn_rnn_flatten_weight.h>
#include <ATen/ops/gru.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/rnn_relu.h>
#include <ATen/ops/rnn_tanh.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <tuple>

#include "ops/recurrent/recurrent.h"

namespace metronome {
namespace {

/// cudnnRNNMode_t.
int mode_of(const RecurrentSequence& op) {
  switch (op.kind) {
    case RecurrentKind::rnn:
      return op.relu ? 0 : 1;
    case RecurrentKind::lstm:
      return 2;
    case RecurrentKind::gru:
      break;
  }
  return 3;
}

}  // namespace

void recurrent::flatten(const RecurrentSequence& layer, const Tensors& operands) {
  const Tensors weights(operands.begin() + static_cast<std::ptrdiff_t>(layer.first_weight()),
                        operands.end());
  const auto on_device = [](const at::Tensor& weight) {
    return weight.defined() && weight.is_cuda();
  };
  if (!std::ranges::all_of(weights, on_device) || !at::_use_cudnn_rnn_flatten_weight()) return;
  const at::NoGradGuard no_gradients;
  at::_cudnn_rnn_flatten_weight(weights, /*weight_stride0=*/layer.bias ? 4 : 2,
                                /*input_size=*/weights[0].size(1), mode_of(layer),
                                /*hidden_size=*/weights[1].size(1), /*proj_size=*/0, layer.layers,
                                layer.batch_first, layer.bidirectional);
}

Tensors reference(const RecurrentSequence& op, const Tensors& in) {
  const auto weights = in.begin() + static_cast<std::ptrdiff_t>(op.first_weight());
  const Tensors parameters(weights, in.end());
  const std::int64_t rows = in[0].size(op.batch_first ? 0 : 1);
  const auto state = [&](bool given, std::size_t operand) {
    if (given) return in[operand];
    return at::zeros({op.layers * op.directions(), rows, parameters[1].size(1)}, in[0].options());
  };
  // Without gradients libtorch keeps nothing for a backward pass.
  const bool train = at::GradMode::is_enabled();
  const auto call = [&](const auto& function, const auto& first) {
    return function(in[0], first, parameters, op.bias, op.layers, /*dropout=*/0.0, train,
                    op.bidirectional, op.batch_first);
  };
  const at::Tensor hidden = state(op.first_hidden, 1);
  if (op.kind == RecurrentKind::lstm) {
    const Tensors first{hidden, state(op.first_cell, op.first_hidden ? 2 : 1)};
    auto [output, last, cell] = call([](const auto&... a) { return at::lstm(a...); }, first);
    return {output, last, cell};
  }
  auto [output, last] =
      op.kind == RecurrentKind::gru ? call([](const auto&... a) { return at::gru(a...); }, hidden)
      : op.relu ? call([](const auto&... a) { return at::rnn_relu(a...); }, hidden)
                : call([](const auto&... a) { return at::rnn_tanh(a...); }, hidden);
  return {output, last};
}

}  // namespace metronome
