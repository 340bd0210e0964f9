#include <ATen/core/Tensor.h>

#include "ops/expand/expand.h"

namespace metronome {

Tensors reference(const Expand& op, const Tensors& in) { return {in[0].expand(op.shape)}; }

}  // namespace metronome
