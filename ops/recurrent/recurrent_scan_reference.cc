#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <optional>

#include "ops/recurrent/recurrent_scan.h"

namespace metronome {
namespace {

/// The step that comes k-th of `count`.
std::int64_t step_of(const RecurrentScan& op, std::int64_t k, std::int64_t count) {
  return op.reverse ? count - 1 - k : k;
}

}  // namespace

Tensors reference(const RecurrentScan& op, const Tensors& in) {
  const std::int64_t count = in[0].size(0);
  const std::size_t weight = op.keeps_cell() ? 3 : 2;
  at::Tensor hidden = in[1], cell = op.keeps_cell() ? in[2] : at::Tensor();
  std::optional<at::Tensor> bias;
  if (in.size() > weight + 1) bias = in[weight + 1];
  Tensors states(static_cast<std::size_t>(count));
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t t = step_of(op, k, count);
    const at::Tensor part = in[0].select(0, t), product = at::linear(hidden, in[weight], bias);
    if (op.kind == RecurrentKind::rnn) {
      hidden = op.relu ? at::relu(part + product) : at::tanh(part + product);
    } else if (op.kind == RecurrentKind::gru) {
      const Tensors p = part.chunk(3, -1), h = product.chunk(3, -1);
      const at::Tensor reset = at::sigmoid(p[0] + h[0]), update = at::sigmoid(p[1] + h[1]);
      const at::Tensor proposed = at::tanh(p[2] + reset * h[2]);
      hidden = update * (hidden - proposed) + proposed;
    } else {
      const Tensors gates = (part + product).chunk(4, -1);
      cell = at::sigmoid(gates[1]) * cell + at::sigmoid(gates[0]) * at::tanh(gates[2]);
      hidden = at::sigmoid(gates[3]) * at::tanh(cell);
    }
    states[static_cast<std::size_t>(t)] = hidden;
  }
  Tensors results{at::stack(states), hidden};
  if (op.keeps_cell()) results.push_back(cell);
  return results;
}

Tensors reference(const RecurrentScanGrad& op, const Tensors& in) {
  const std::size_t first = op.states();
  const at::Tensor &states = in[first], &gates = in[first + 1], &kept = in[first + 2];
  const at::Tensor &first_hidden = in[first + 3], &weight = in.back();
  const std::int64_t count = states.size(0);
  std::size_t next = 0;
  const at::Tensor none = at::zeros_like(first_hidden);
  const at::Tensor of_states = op.of_states ? in[next++] : at::zeros_like(states);
  at::Tensor change = op.of_last ? in[next++] : none, of_cell = op.of_cell ? in[next++] : none;
  Tensors parts(static_cast<std::size_t>(count)), products(parts.size());
  for (std::int64_t k = count - 1; k >= 0; --k) {
    const std::int64_t t = step_of(op.scan, k, count);
    const auto before = [&](const at::Tensor& x, const at::Tensor& at_first) {
      return k == 0 ? at_first : x.select(0, step_of(op.scan, k - 1, count));
    };
    change = change + of_states.select(0, t);
    at::Tensor &part = parts[static_cast<std::size_t>(t)],
               &product = products[static_cast<std::size_t>(t)];
    at::Tensor beside = none;
    if (op.scan.kind == RecurrentKind::rnn) {
      const at::Tensor y = states.select(0, t);
      product = part = op.scan.relu ? at::where(y <= 0, none, change) : change * (1 - y * y);
    } else if (op.scan.kind == RecurrentKind::gru) {
      const Tensors g = gates.select(0, t).chunk(3, -1);
      const at::Tensor &reset = g[0], &update = g[1], &proposed = g[2];
      const at::Tensor of_proposed = change * (1 - update) * (1 - proposed * proposed);
      const at::Tensor of_update =
          change * (before(states, first_hidden) - proposed) * update * (1 - update);
      const at::Tensor of_reset = of_proposed * kept.select(0, t) * reset * (1 - reset);
      part = at::cat({of_reset, of_update, of_proposed}, -1);
      product = at::cat({of_reset, of_update, of_proposed * reset}, -1);
      beside = change * update;
    } else {
      const Tensors g = gates.select(0, t).chunk(4, -1);
      const at::Tensor &input = g[0], &forget = g[1], &proposed = g[2], &output = g[3];
      const at::Tensor bent = at::tanh(kept.select(0, t));
      of_cell = of_cell + change * output * (1 - bent * bent);
      product = part = at::cat(
          {of_cell * proposed * input * (1 - input),
           of_cell * before(kept, in[first + 4]) * forget * (1 - forget),
           of_cell * input * (1 - proposed * proposed), change * bent * output * (1 - output)},
          -1);
      of_cell = of_cell * forget;
    }
    change = at::matmul(product, weight) + beside;
  }
  Tensors results{at::stack(parts)};
  if (op.scan.kind == RecurrentKind::gru) results.push_back(at::stack(products));
  results.push_back(change);
  if (op.scan.keeps_cell()) results.push_back(of_cell);
  return results;
}

}  // namespace metronome
