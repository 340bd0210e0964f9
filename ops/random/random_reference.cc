// libtorch draws other numbers, and others on each device: eager runs the kernels' own function.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "ops/random/draw_rule.h"
#include "ops/random/random.h"
#include "ops/reference/elements.h"

namespace metronome {

Tensors reference(const Random& op, const Tensors& in) {
  const auto seed = static_cast<std::uint64_t>(in[0].item<std::int64_t>());
  const auto draws = static_cast<std::uint64_t>(in[1].item<std::int64_t>());
  const at::Tensor made = at::empty(op.type.shape, at::TensorOptions(to_torch(op.type.element)));
  const auto fill = [&](auto* to) {
    for (std::int64_t i = 0; i < made.numel(); ++i) {
      to[i] = cuda::drawn(draw_rule(op), seed, draws, op.key,
                          op.first + static_cast<std::uint64_t>(i), to);
    }
  };
  if (op.type.element == f64) {
    fill(made.data_ptr<double>());
  } else {
    fill(made.data_ptr<float>());
  }
  return {made.to(in[0].device())};
}

}  // namespace metronome
