// The layers that transformers are stacked of (Vaswani et al. 2017), with the names and defaults of
// torch.nn.TransformerEncoderLayer and TransformerDecoderLayer.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/ir/init.h"
#include "graph/ir/line.h"
#include "graph/ir/value.h"
#include "ops/expr/functions.h"
#include "ops/layers/multi_head_attention.h"

namespace metronome {

/// Masks as those of `multi_head_attention`: true excludes.
struct TransformerLayerOptions {
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;  ///< of attention's weights, and of what each part adds to the stream
  Layer activation = relu;
  double layer_norm_eps = 1e-5;
  bool norm_first = false;  ///< norms before each part, not behind its sum (pre-LN)
  // Options of self-attention, as in MultiHeadAttentionOptions.
  Value attn_mask = {};
  Value key_padding_mask = {};
  bool is_causal = false;
  std::int64_t kv_heads = 0;
  std::optional<RotaryOptions> rotary = {};
  bool batch_first = true;  ///< PyTorch's default is false
  /// The init of all weights but those of norms, and of their biases; absent: as in `linear` and
  /// `multi_head_attention`.
  std::optional<Init> weight_init = {};
  std::optional<Init> bias_init = {};
  /// The init of out_proj/weight and linear2/weight, whose results are added to the stream; absent:
  /// weight_init.
  std::optional<Init> out_init = {};
};

/// x [N, L, width]: self-attention, then linear1 [dim_feedforward], the activation and linear2
/// [width], each added to the stream. Parameters under `transformer_encoder_layer/`: `self_attn/`
/// as of `multi_head_attention`, `norm1/`, `linear1/`, `linear2/`, `norm2/`.
Layer transformer_encoder_layer(std::int64_t width, std::int64_t heads,
                                TransformerLayerOptions options = {});

/// The stream that a decoder layer's second attention looks at, and its masks.
struct TransformerMemory {
  Value stream;                 ///< [N, S, any width], batch first as the decoder's stream is
  Value attn_mask = {};         ///< [L, S], or [N * heads, L, S]
  Value key_padding_mask = {};  ///< [N, S]
};

/// x [N, L, width]: self-attention, attention to the memory, and the two linear layers, each added
/// to the stream. Parameters under `transformer_decoder_layer/`: `self_attn/`, `norm1/`,
/// `multihead_attn/`, `norm2/`, `linear1/`, `linear2/`, `norm3/`. The options' masks are
/// self-attention's, the rest is of both attentions; neither rotates the memory.
Layer transformer_decoder_layer(std::int64_t width, std::int64_t heads, TransformerMemory memory,
                                TransformerLayerOptions options = {});

}  // namespace metronome
