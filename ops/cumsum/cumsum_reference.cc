#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "ops/cumsum/cumsum.h"

namespace metronome {

Tensors reference(const Cumsum& op, const Tensors& in) {
  at::Tensor x = op.reverse ? at::flip(in[0], op.axis) : in[0];
  if (op.exclusive && x.size(op.axis) > 0) {  // zero first, the last element left out
    const at::Tensor first = at::zeros_like(x.narrow(op.axis, 0, 1));
    x = at::cat({first, x.narrow(op.axis, 0, x.size(op.axis) - 1)}, op.axis);
  }
  const at::Tensor sums = at::cumsum(x, op.axis, x.scalar_type());
  return {op.reverse ? at::flip(sums, op.axis) : sums};
}

}  // namespace metronome
