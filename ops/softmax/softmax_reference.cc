#include <ATen/core/Tensor.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/softmax.h>

#include "ops/pick/pick.h"
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
  const Tensors rows = reference(PickGrad{in[2].size(-1), op.ignored}, {in[0], in[1]});
  return reference(SoftmaxGrad{-1, true}, {rows[0], in[2]});
}

}  // namespace metronome
