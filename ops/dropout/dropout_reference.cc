#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>

#include "ops/dropout/dropout.h"
#include "ops/rules/random.h"

namespace metronome {
namespace {

template <class T>
void fill_mask(const Dropout& op, const at::Tensor& mask, std::uint64_t seed,
               std::uint64_t replay) {
  T* factors = mask.data_ptr<T>();
  for (std::int64_t i = 0; i < mask.numel(); ++i) {
    const std::uint64_t number = op.first + static_cast<std::uint64_t>(i);
    const auto words = philox(seed, replay, op.key, number / 4);
    const bool kept = uniform(words[number % 4]) >= static_cast<float>(op.p);
    factors[i] = kept ? static_cast<T>(op.scale()) : T(0);
  }
}

}  // namespace

Tensors reference(const Dropout& op, const Tensors& in) {
  const auto seed = static_cast<std::uint64_t>(in[0].item<std::int64_t>());
  const auto replay = static_cast<std::uint64_t>(in[1].item<std::int64_t>());
  const at::Tensor mask =
      at::empty(in[2].sizes(), in[2].options().device(at::kCPU).requires_grad(false));
  if (mask.scalar_type() == c10::kFloat) {
    fill_mask<float>(op, mask, seed, replay);
  } else {
    fill_mask<double>(op, mask, seed, replay);
  }
  const at::Tensor factor = mask.to(in[2].device());
  return {(in[2] * factor).masked_fill(at::eq(factor, 0), 0)};
}

}  // namespace metronome
