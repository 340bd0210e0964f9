#include <ATen/core/Tensor.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <limits>
#include <optional>

#include "ops/attention/attention.h"

namespace metronome {

Tensors reference(const Attention& op, const Tensors& in) {
  std::optional<at::Tensor> mask;
  if (in.size() > 3) mask = in[3];
  bool causal = op.is_causal;
  if (mask && causal) {  // libtorch takes one of them
    const at::Tensor sees =
        at::ones({in[0].size(-2), in[1].size(-2)}, in[0].options().dtype(at::kBool)).tril();
    mask = mask->scalar_type() == at::kBool
               ? at::logical_and(*mask, sees)
               : mask->masked_fill(sees.logical_not(), -std::numeric_limits<double>::infinity());
    causal = false;
  }
  return {at::scaled_dot_product_attention(in[0], in[1], in[2], mask, 0, causal, op.scale,
                                           op.enable_gqa)};
}

}  // namespace metronome
