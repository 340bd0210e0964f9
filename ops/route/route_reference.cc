#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "ops/route/route.h"

namespace metronome {

Tensors reference(const Route& op, const Tensors& in) {
  const at::Tensor weights = in[0].detach();
  const std::int64_t rows = weights.size(0), experts = weights.size(1);
  const at::TensorOptions whole = weights.options().dtype(at::kLong);
  const at::Tensor sorted = std::get<1>(at::sort(weights, /*stable=*/true, -1, true));
  const at::Tensor expert = sorted.narrow(1, 0, op.top).t();
  const at::Tensor row = at::arange(rows, whole);
  const at::Tensor chosen = expert.reshape({-1});

  // A choice's place is the number of earlier ones of its expert.
  const at::Tensor falls = chosen.unsqueeze(1).eq(at::arange(experts, whole)).to(at::kLong);
  const at::Tensor place = falls.cumsum(0).gather(1, chosen.unsqueeze(1)).squeeze(1).sub(1);
  const at::Tensor slot =
      at::where(place.lt(op.slots), chosen.mul(op.slots).add(place), experts * op.slots);
  const at::Tensor row_of = at::zeros({experts * op.slots + 1}, whole)
                                .scatter(0, slot, row.repeat({op.top}))
                                .narrow(0, 0, experts * op.slots);
  return {expert.add(row.mul(experts)), slot.reshape({op.top, rows}), row_of, falls.sum(0)};
}

}  // namespace metronome
