#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "ops/slice/slice.h"

namespace metronome {

Tensors reference(const Slice& op, const Tensors& in) {
  return {in[0].slice(op.axis, op.begin, op.end)};
}

Tensors reference(const SliceGrad& op, const Tensors& in) {
  std::vector<std::int64_t> before = in[0].sizes().vec(), after = before;
  before[op.axis] = op.begin;
  after[op.axis] = op.size - op.begin - in[0].size(op.axis);
  const at::Tensor whole = at::cat(
      {at::zeros(before, in[0].options()), in[0], at::zeros(after, in[0].options())}, op.axis);
  return {op.accumulate ? whole + in[1] : whole};
}

}  // namespace metronome
