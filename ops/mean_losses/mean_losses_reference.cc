#include <ATen/core/Tensor.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/l1_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/smooth_l1_loss.h>

#include "ops/mean_losses/mean_losses.h"

namespace metronome {

Tensors reference(const MseLoss&, const Tensors& in) { return {at::mse_loss(in[0], in[1])}; }

Tensors reference(const L1Loss&, const Tensors& in) { return {at::l1_loss(in[0], in[1])}; }

Tensors reference(const SmoothL1Loss& op, const Tensors& in) {
  // libtorch's smooth_l1_loss wants a positive beta; at 0 torch.nn takes l1_loss.
  if (op.beta == 0) return {at::l1_loss(in[0], in[1])};
  return {at::smooth_l1_loss(in[0], in[1], at::Reduction::Mean, op.beta)};
}

Tensors reference(const CrossEntropyLoss& op, const Tensors& in) {
  return {at::cross_entropy_loss(in[0].reshape({-1, in[0].size(-1)}), in[1].reshape({-1}), {},
                                 at::Reduction::Mean, op.ignore_index)};
}

Tensors reference(const BceWithLogitsLoss&, const Tensors& in) {
  return {at::binary_cross_entropy_with_logits(in[0], in[1])};
}

}  // namespace metronome
