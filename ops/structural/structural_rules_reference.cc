#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cstring>

#include "ops/reference/table.h"
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
  const auto begin = static_cast<std::int64_t>(op.offset / size_of(op.type.element));
  return {in[0].slice(0, begin, begin + op.type.numel()).reshape(op.type.shape)};
}

Tensors reference(const StopGradient&, const Tensors& in) { return {in[0].detach()}; }

}  // namespace metronome
