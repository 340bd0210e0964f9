#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <optional>

#include "ops/attention/flash_attention.h"

namespace metronome {
namespace {

/// Heads that share keys and values: a dimension of their own, behind the key's heads.
at::Tensor split_heads(const at::Tensor& x, std::int64_t key_heads) {
  if (x.dim() < 3) return x;
  return x.unflatten(-3, {key_heads, -1});
}

/// bool [L, S], or with the mask's leading dimensions; absent: all is seen.
std::optional<at::Tensor> seen_mask(bool is_causal, const at::Tensor& query, const at::Tensor& key,
                                    const std::optional<at::Tensor>& mask) {
  if (!is_causal) return mask;
  const at::Tensor causal =
      at::ones({query.size(-2), key.size(-2)}, query.options().dtype(at::kBool)).tril();
  return mask ? at::logical_and(*mask, causal) : causal;
}

}  // namespace

Tensors reference(const FlashAttention& op, const Tensors& in) {
  std::optional<at::Tensor> mask;
  if (in.size() > 3) mask = in[3];
  const bool gqa = in[0].dim() > 2 && in[0].size(-3) != in[1].size(-3);
  return {at::scaled_dot_product_attention(
      in[0], in[1], in[2], seen_mask(op.is_causal, in[0], in[1], mask), 0, false, op.scale, gqa)};
}

/// With P = exp(scale Q K^T - logarithms) and D the sums of gradient and result along each row:
/// dV = P^T G, dS = P (G V^T - D), dQ = scale dS K, dK = scale dS^T Q.
Tensors reference(const FlashAttentionGrad& op, const Tensors& in) {
  std::optional<at::Tensor> mask;
  if (in.size() > 6) mask = in[6];
  const bool heads = in[2].dim() > 2;
  const std::int64_t key_heads = heads ? in[2].size(-3) : 1;
  const auto shared = [&](const at::Tensor& x) { return heads ? x.unsqueeze(-3) : x; };
  const auto summed = [&](const at::Tensor& x) { return heads ? x.sum(-3) : x; };
  const at::Tensor g = split_heads(in[0], key_heads), q = split_heads(in[1], key_heads),
                   k = shared(in[2]), v = shared(in[3]), y = split_heads(in[4], key_heads);
  const at::Tensor logarithms = split_heads(in[5].unsqueeze(-1), key_heads);
  at::Tensor p = (op.scale * at::matmul(q, k.transpose(-2, -1)) - logarithms).exp();
  if (const auto sees = seen_mask(op.is_causal, in[1], in[2], mask)) {
    std::vector<std::int64_t> all(in[1].sizes().begin(), in[1].sizes().end());
    all.back() = in[2].size(-2);
    p = p * split_heads(sees->expand(all), key_heads);
  }
  const at::Tensor ds = op.scale * p * (at::matmul(g, v.transpose(-2, -1)) - (g * y).sum(-1, true));
  return {at::matmul(ds, k).reshape(in[1].sizes()), summed(at::matmul(ds.transpose(-2, -1), q)),
          summed(at::matmul(p.transpose(-2, -1), g))};
}

}  // namespace metronome
