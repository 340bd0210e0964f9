#include <ATen/core/Tensor.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/softmax.h>

#include "ops/softmax/softmax.h"

namespace metronome {

Tensors reference(const Softmax& op, const Tensors& in) {
  return {op.log ? at::log_softmax(in[0], op.axis) : at::softmax(in[0], op.axis)};
}

Tensors reference(const SoftmaxGrad& op, const Tensors& in) {
  const at::ScalarType type = in[0].scalar_type();
  return {op.log ? at::_log_softmax_backward_data(in[0], in[1], op.axis, type)
                 : at::_softmax_backward_data(in[0], in[1], op.axis, type)};
}

}  // namespace metronome
