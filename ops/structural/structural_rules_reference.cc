#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cstring>

#include "ops/reference/elements.h"
#include "ops/structural/structural_rules.h"

namespace metronome {

Tensors reference(const Fill& op, const Tensors&) {
  return {at::full(op.type.shape, op.number, at::TensorOptions(to_torch(op.type.element)))};
}

Tensors reference(const Constant& op, const Tensors&) {
  at::Tensor result = at::empty(op.type.shape, at::TensorOptions(to_torch(op.type.element)));
  if (!op.bytes.empty()) std::memcpy(result.data_ptr(), op.bytes.data(), op.bytes.size());
  return {result};
}

Tensors reference(const Accumulate&, const Tensors& in) { return {in[0] + in[1]}; }

Tensors reference(const Increment&, const Tensors& in) { return {in[0] + 1}; }

Tensors reference(const IsMultiple& op, const Tensors& in) {
  return {at::eq(at::remainder(in[0], op.of), 0)};
}

Tensors reference(const IsFinite&, const Tensors& in) { return {at::isfinite(in[0])}; }

Tensors reference(const MeanWeight&, const Tensors& in) {
  const at::Tensor own = in[0].to(at::kDouble), all = own + in[1];
  return {at::where(at::eq(all, 0) & at::eq(own, 0), at::zeros_like(all), own / all), all};
}

Tensors reference(const Copy&, const Tensors& in) { return {in[0].clone()}; }

Tensors reference(const Pack& op, const Tensors& in) {
  Tensors parts;
  for (const at::Tensor& tensor : in) {
    const auto unit = static_cast<std::int64_t>(op.alignment / tensor.element_size());
    const std::int64_t gap = (unit - tensor.numel() % unit) % unit;
    parts.push_back(tensor.reshape({-1}));
    parts.push_back(at::zeros({gap}, tensor.options()));
  }
  return {at::cat(parts)};
}

Tensors reference(const Unpack& op, const Tensors& in) {
  return {in[0].slice(0, op.begin, op.begin + numel(op.shape)).reshape(op.shape)};
}

Tensors reference(const Relayout& op, const Tensors& in) {
  at::Tensor plain = in[0];
  if (op.from.blocked >= 0) {  // the blocks behind their dimension, as one, cut to its size
    plain = plain.movedim(-1, op.from.place_of(op.from.blocked) + 1)
                .flatten(op.from.place_of(op.from.blocked), op.from.place_of(op.from.blocked) + 1)
                .narrow(op.from.place_of(op.from.blocked), 0, op.shape[op.from.blocked]);
  }
  std::vector<std::int64_t> declared, order;
  for (std::int32_t d = 0; d < static_cast<std::int32_t>(op.shape.size()); ++d) {
    declared.push_back(op.from.place_of(d));
  }
  plain = plain.permute(declared);
  order.assign(op.to.order.begin(), op.to.order.end());
  at::Tensor result = order.empty() ? plain : plain.permute(order);
  if (op.to.blocked >= 0) {
    const std::int64_t place = op.to.place_of(op.to.blocked), size = result.size(place);
    const std::int64_t blocks = (size + op.to.block - 1) / op.to.block;
    std::vector<std::int64_t> gap(result.sizes().begin(), result.sizes().end());
    gap[place] = blocks * op.to.block - size;
    result = at::cat({result, at::zeros(gap, result.options())}, place)
                 .unflatten(place, {blocks, op.to.block})
                 .movedim(place + 1, -1);
  }
  return {result.contiguous()};
}

Tensors reference(const StopGradient&, const Tensors& in) { return {in[0].detach()}; }

}  // namespace metronome
