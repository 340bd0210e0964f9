#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>

#include "ops/matmul/matmul.h"

namespace metronome {

Tensors reference(const Matmul& op, const Tensors& in) {
  const at::Tensor a = op.transpose_a ? in[0].transpose(-2, -1) : in[0];
  const at::Tensor b = op.transpose_b ? in[1].transpose(-2, -1) : in[1];
  const at::Tensor product = at::matmul(a, b);
  return {op.accumulate ? at::add(in[2], product) : product};
}

Tensors reference(const Linear&, const Tensors& in) {
  return {in.size() > 2 ? at::linear(in[0], in[1], in[2]) : at::linear(in[0], in[1])};
}

}  // namespace metronome
