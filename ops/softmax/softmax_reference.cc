#include <ATen/core/Tensor.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros_like.h>

#include "ops/softmax/softmax.h"

namespace metronome {

Tensors reference(const Softmax& op, const Tensors& in) {
  return {op.log ? at::log_softmax(in[0], op.axis) : at::softmax(in[0], op.axis)};
}

Tensors reference(const SoftmaxGrad& op, const Tensors& in) {
  const at::ScalarType type = in[0].scalar_type();
  if (!op.log) return {at::_softmax_backward_data(in[0], in[1], op.axis, type)};
  const at::Tensor gradient = at::_log_softmax_backward_data(in[0], in[1], op.axis, type);
  // It is 0 where neither the element nor the row has a gradient, whatever the row holds.
  const at::Tensor none = at::logical_and(at::eq(in[0], 0), at::eq(in[0].sum(op.axis, true), 0));
  return {gradient.masked_fill(none, 0)};
}

Tensors reference(const PickedSoftmaxGrad& op, const Tensors& in) {
  at::Tensor index = in[1].to(c10::kLong), gradient = in[0];
  if (op.ignored) {
    const at::Tensor none = index.eq(*op.ignored);
    index = index.masked_fill(none, 0);
    gradient = gradient.masked_fill(none, 0);
  }
  const at::Tensor rows =
      at::zeros_like(in[2]).scatter(-1, index.unsqueeze(-1), gradient.unsqueeze(-1));
  return reference(SoftmaxGrad{-1, true}, {rows, in[2]});
}

}  // namespace metronome
