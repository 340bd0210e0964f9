// The same steps in ATen's elementwise calls, as torch.optim writes them without its fused kernels.
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <cstdint>

#include "ops/optimizer_updates/optimizer_updates.h"

namespace metronome {

namespace {

at::Tensor scaled_gradient(const Tensors& in, std::size_t arity) {
  return in.size() > arity ? in[1].mul(in[arity].to(in[1].scalar_type())) : in[1];
}

}  // namespace

Tensors reference(const AdamUpdate& op, const Tensors& in) {
  const double lr = in[4].item<double>();
  const double bias_correction1 = in[5].item<double>();
  const double bias_correction2 = in[6].item<double>();
  at::Tensor param = in[0], grad = scaled_gradient(in, op.arity());
  if (op.decays) {
    const double decay = in[7].item<double>();
    if (op.decoupled) {
      param = param.mul(1 - lr * decay);
    } else {
      grad = grad.add(param, decay);
    }
  }
  const at::Tensor exp_avg = in[2].lerp(grad, 1 - op.beta1);
  const at::Tensor exp_avg_sq = in[3].mul(op.beta2).addcmul(grad, grad, 1 - op.beta2);
  const at::Tensor denominator = exp_avg_sq.sqrt().div(std::sqrt(bias_correction2)).add(op.eps);
  return {param.addcdiv(exp_avg, denominator, -lr / bias_correction1), exp_avg, exp_avg_sq};
}

Tensors reference(const AdamTableUpdate& op, const Tensors& in) {
  at::Tensor gradient = at::zeros_like(in[0]);
  const at::Tensor index = in[4].to(at::kCPU, at::kLong);
  for (std::int64_t i = 0; i < index.numel(); ++i) {
    const auto row = index[i].item<std::int64_t>();
    if (row < 0 || row >= in[0].size(0) || (i > 0 && index[i - 1].item<std::int64_t>() == row))
      continue;
    gradient[row].copy_(in[3][i]);
  }
  Tensors dense = {in[0], gradient, in[1], in[2]};
  dense.insert(dense.end(), in.begin() + 5, in.end());
  return reference(op.step, dense);
}

Tensors reference(const SgdUpdate& op, const Tensors& in) {
  const at::Tensor& param = in[0];
  at::Tensor grad = scaled_gradient(in, op.arity());
  if (op.decays) grad = grad.add(param, in[op.arity() - 1].item<double>());
  if (!op.has_momentum()) return {param.sub(grad, in[2].item<double>())};
  const at::Tensor buffer = in[2].mul(op.momentum).add(grad, in[4].item<double>());
  grad = op.nesterov ? grad.add(buffer, op.momentum) : buffer;
  return {param.sub(grad, in[3].item<double>()), buffer};
}

Tensors reference(const AverageWeight& op, const Tensors& in) {
  const auto t = static_cast<double>(in[0].item<std::int64_t>()) + 1;
  const double weight = (1 - op.decay) / (op.bias_correction ? 1 - std::pow(op.decay, t) : 1);
  return {at::full({}, weight, at::TensorOptions(at::kDouble))};
}

Tensors reference(const AverageUpdate&, const Tensors& in) {
  const double weight = in[2].item<double>();
  // One of them counts for nothing, whatever it holds.
  if (weight == 0 || weight == 1) return {in[weight == 0 ? 0 : 1].clone()};
  return {in[0].lerp(in[1], weight)};
}

}  // namespace metronome
