#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

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

Tensors reference(const StopGradient&, const Tensors& in) { return {in[0].detach()}; }

}  // namespace metronome
