// Scaled dot-product attention (Vaswani et al., "Attention is all you need", 2017), composed of
// products and a softmax. Names, masks and results are those of PyTorch's function of that name.
#pragma once

#include <optional>

#include "graph/ir/line.h"
#include "graph/ir/value.h"

namespace metronome {

struct AttentionOptions {
  /// The mask, broadcast to the scores, [..., L, S]. A bool is true where the query takes part in
  /// the key (as in PyTorch's function; its MultiheadAttention means the opposite). Numbers of the
  /// query's element type are added to the scores; -inf excludes. Absent: every query sees every
  /// key.
  Value attn_mask = {};
  double dropout_p = 0;  ///< of the weights; the identity in evaluation
  /// Query i sees keys 0 to i. PyTorch refuses a mask beside it; here both hold.
  bool is_causal = false;
  std::optional<double> scale = {};  ///< of the scores; absent: 1 / sqrt(E)
  /// The query's heads (dimension -3) are a multiple of the key's and of the value's: neighbouring
  /// query heads share one head (Ainslie et al., "GQA", 2023).
  bool enable_gqa = false;
};

/// softmax(scale query key^T + mask) value for query [..., L, E], key [..., S, E] and value
/// [..., S, Ev], all f32 or all f64, leading dimensions broadcast: [..., L, Ev]. A query whose mask
/// excludes every key gives zeros, and its gradients are zero, as in PyTorch.
Value scaled_dot_product_attention(Value query, Value key, Value value,
                                   AttentionOptions options = {}, Line line = Line::here());

}  // namespace metronome
