#include <ATen/core/Tensor.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/square.h>
#include <ATen/ops/sum.h>

#include "graph/ir/error.h"
#include "ops/reduce/reduce.h"

namespace metronome {

Tensors reference(const Reduce& op, const Tensors& in) {
  const bool squares = op.kind == Reduce::Kind::sum_squares;
  const at::Tensor x = squares ? at::square(in[0]) : in[0];
  if (op.axes.empty()) {  // libtorch takes no axes for all axes
    return {op.kind == Reduce::Kind::norm ? at::abs(x) : x};
  }
  switch (op.kind) {
    case Reduce::Kind::sum:
    case Reduce::Kind::sum_squares:
      return {at::sum(x, op.axes, op.keep, x.scalar_type())};
    case Reduce::Kind::norm:
      // It is 0 for a row without elements.
      return {at::linalg_vector_norm(x, 2, op.axes, op.keep)};
    case Reduce::Kind::mean:
      return {at::mean(x, op.axes, op.keep)};
    case Reduce::Kind::max:
      return {at::amax(x, op.axes, op.keep)};
    case Reduce::Kind::min:
      return {at::amin(x, op.axes, op.keep)};
  }
  throw InternalError("a reduction's kind out of range");
}

Tensors reference(const ArgMax& op, const Tensors& in) { return {at::argmax(in[0], op.axis)}; }

}  // namespace metronome
