#include <ATen/core/Tensor.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/zeros.h>

#include "ops/pick/pick.h"

namespace metronome {

Tensors reference(const Pick& op, const Tensors& in) {
  const at::Tensor index = in[1].to(c10::kLong);
  const auto picked = [&](const at::Tensor& at) {
    return at::gather(in[0], -1, at.unsqueeze(-1)).squeeze(-1);
  };
  if (!op.ignored) return {picked(index)};
  const at::Tensor none = index.eq(*op.ignored);
  return {picked(index.masked_fill(none, 0)).masked_fill(none, 0)};
}

Tensors reference(const PickGrad& op, const Tensors& in) {
  std::vector<std::int64_t> shape = in[0].sizes().vec();
  shape.push_back(op.size);
  at::Tensor index = in[1].to(c10::kLong), gradient = in[0];
  if (op.ignored) {
    const at::Tensor none = index.eq(*op.ignored);
    index = index.masked_fill(none, 0);
    gradient = gradient.masked_fill(none, 0);
  }
  return {at::zeros(shape, gradient.options())
              .scatter(-1, index.unsqueeze(-1), gradient.unsqueeze(-1))};
}

}  // namespace metronome
