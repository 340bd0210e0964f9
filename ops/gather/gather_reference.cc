#include <ATen/core/Tensor.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/scatter_add.h>

#include "ops/gather/gather.h"

namespace metronome {

Tensors reference(const Gather& op, const Tensors& in) {
  return {at::gather(in[0], op.axis, in[1].to(c10::kLong))};
}

Tensors reference(const ScatterAdd& op, const Tensors& in) {
  return {at::scatter_add(in[0], op.axis, in[1].to(c10::kLong), in[2])};
}

}  // namespace metronome
