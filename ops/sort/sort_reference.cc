#include <ATen/core/Tensor.h>
#include <ATen/ops/sort.h>

#include "ops/sort/sort.h"

namespace metronome {

Tensors reference(const Sort& op, const Tensors& in) {
  const auto [values, indices] = at::sort(in[0], /*stable=*/true, op.axis, op.descending);
  const std::int64_t kept = op.top.value_or(in[0].size(op.axis));
  return {values.narrow(op.axis, 0, kept), indices.narrow(op.axis, 0, kept)};
}

}  // namespace metronome
