#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>

#include "ops/pick.h"

namespace metronome {

Tensors reference(const Pick&, const Tensors& in) {
  return {at::gather(in[0], -1, in[1].to(c10::kLong).unsqueeze(-1)).squeeze(-1)};
}

Tensors reference(const PickGrad& op, const Tensors& in) {
  std::vector<std::int64_t> shape = in[0].sizes().vec();
  shape.push_back(op.size);
  return {at::zeros(shape, in[0].options())
              .scatter(-1, in[1].to(c10::kLong).unsqueeze(-1), in[0].unsqueeze(-1))};
}

}  // namespace metronome
