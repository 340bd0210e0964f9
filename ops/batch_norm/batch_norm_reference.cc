#include <ATen/core/Tensor.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>

#include "ops/batch_norm/batch_norm.h"

namespace metronome {

Tensors reference(const BatchNorm& op, const Tensors& in) {
  // libtorch moves the running statistics in place: give it copies of them.
  const at::Tensor mean = in[3].detach().clone(), variance = in[4].detach().clone();
  const at::Tensor y =
      at::batch_norm(in[0], in[1], in[2], mean, variance, true, op.momentum, op.eps, false);
  return {y, mean, variance};
}

Tensors reference(const BatchNormGrad&, const Tensors& in) {
  const auto [dx, dgamma, dbeta] = at::native_batch_norm_backward(
      in[0], in[1], in[4], {}, {}, in[2], in[3], true, 1e-5, {true, true, true});
  return {dx, dgamma, dbeta};
}

Tensors reference(const BatchNormEvaluate& op, const Tensors& in) {
  return {at::batch_norm(in[0], in[1], in[2], in[3], in[4], false, 0, op.eps, false)};
}

}  // namespace metronome
