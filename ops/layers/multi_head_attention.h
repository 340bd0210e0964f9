// Multi-head attention as a layer: projections, attention of each head, projection.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/ir/init.h"
#include "graph/ir/line.h"
#include "graph/ir/value.h"
#include "ops/layers/positions.h"

namespace metronome {

/// As torch.nn.MultiheadAttention's, masks too: there, and so here, true EXCLUDES, the opposite of
/// `scaled_dot_product_attention`. Masks are bool, or of the stream's element type and added to the
/// scores.
struct MultiHeadAttentionOptions {
  Value key = {};               ///< [N, S, any width]; absent: the stream itself, self-attention
  Value value = {};             ///< [N, S, any width]; absent: as `key`
  Value attn_mask = {};         ///< [L, S], or [N * heads, L, S]
  Value key_padding_mask = {};  ///< [N, S]
  bool is_causal = false;       ///< query i sees keys 0 to i, in PyTorch a hint about attn_mask
  double dropout = 0;           ///< of the weights
  bool bias = true;
  std::int64_t kv_heads = 0;  ///< heads of keys and values, a divisor of `heads`; 0: `heads`
  std::optional<RotaryOptions> rotary = {};  ///< rotates the heads' queries and keys
  /// Streams are [N, L, width]; else [L, N, width], which is PyTorch's default.
  bool batch_first = true;
  std::optional<Init> weight_init = {};  ///< of the weights of q, k and v
  std::optional<Init> out_init = {};     ///< of out_proj/weight
  std::optional<Init> bias_init = {};    ///< of in_proj_bias and out_proj/bias
};

/// The stream x [N, L, embed] asks, `options.key` answers: [N, L, embed]. Each head has embed /
/// heads numbers. A query whose masks exclude every key gets `out_proj/bias`.
///
/// Parameters under `multi_head_attention/`, with H = embed and K = embed / heads * kv_heads (H
/// where kv_heads is 0), in the order of q, k, v:
///   in_proj_weight [H + 2 K, embed] where key and value are of width embed, else q_proj_weight
///     [H, embed], k_proj_weight [K, width], v_proj_weight [K, width]
///   in_proj_bias [H + 2 K]
///   out_proj/weight [embed, embed], out_proj/bias [embed]
/// Without an init in the options the weights of q, k and v begin Xavier-uniform, out_proj/weight
/// as `linear`'s, biases as zeros.
Layer multi_head_attention(std::int64_t embed, std::int64_t heads,
                           MultiHeadAttentionOptions options = {});

namespace attention {

/// Applies the layer to x with its parameters under `path`; messages call it `called`.
Value multi_head_as(std::string_view path, std::string_view called, Value x, std::int64_t embed,
                    std::int64_t heads, const MultiHeadAttentionOptions& options, Line line);

}  // namespace attention
}  // namespace metronome
