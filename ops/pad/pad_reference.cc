#include <ATen/core/Tensor.h>
#include <ATen/ops/constant_pad_nd.h>

#include "ops/pad/pad.h"

namespace metronome {

Tensors reference(const Pad& op, const Tensors& in) {
  // libtorch takes the last dimension first.
  std::vector<std::int64_t> widths;
  for (std::size_t d = op.low.size(); d-- > 0;) {
    widths.push_back(op.low[d]);
    widths.push_back(op.high[d]);
  }
  return {at::constant_pad_nd(in[0], widths, op.number)};
}

}  // namespace metronome
