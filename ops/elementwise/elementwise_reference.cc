#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include "graph/ir/error.h"
#include "ops/elementwise/elementwise.h"

namespace metronome {

Tensors reference(const Elementwise& op, const Tensors& operands) {
  // libtorch's backward of gelu is the one call that takes dense operands of one shape.
  Tensors dense;
  if (op.function == Function::gelu_grad) {
    for (const at::Tensor& each : at::broadcast_tensors(operands)) {
      dense.push_back(each.contiguous());
    }
  }
  const Tensors& in = dense.empty() ? operands : dense;
  const at::Tensor& x = in[0];
  const at::Tensor& y = in.size() > 1 ? in[1] : x;
  const at::Tensor& z = in.size() > 2 ? in[2] : x;
  const double a = op.a, b = op.b;
  switch (op.function) {
#define METRONOME_ROW(function, operands, elements, numbers, formula, call, ...) \
  case Function::function:                                                       \
    return {call};
#include "ops/elementwise/elementwise_rows.h"
#undef METRONOME_ROW
  }
  static_cast<void>(a), static_cast<void>(b);
  throw InternalError("an elementwise function out of range");
}

}  // namespace metronome
