#include <ATen/core/Tensor.h>

#include "ops/reshape/reshape.h"

namespace metronome {

Tensors reference(const Reshape& op, const Tensors& in) { return {in[0].reshape(op.shape)}; }

}  // namespace metronome
