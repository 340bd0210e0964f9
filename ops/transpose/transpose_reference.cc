#include <ATen/core/Tensor.h>

#include "ops/transpose/transpose.h"

namespace metronome {

Tensors reference(const Transpose& op, const Tensors& in) { return {in[0].permute(op.axes)}; }

}  // namespace metronome
