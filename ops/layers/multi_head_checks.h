// Checks of multi-head attention's operands, and its two masks joined.
#pragma once

#include <cstdint>

#include "graph/ir/line.h"
#include "graph/ir/value.h"
#include "ops/layers/multi_head_attention.h"

namespace metronome::attention {

struct HeadSizes {
  std::int64_t embed = 0, heads = 0, kv_heads = 0;
  std::int64_t width() const { return embed / heads; }
  std::int64_t kv_embed() const { return kv_heads * width(); }
};

/// Throws Requirement.
void require_multi_head(const Value& x, const Value& key, const Value& value,
                        const HeadSizes& sizes, const MultiHeadAttentionOptions& options);

/// Both masks as one of `scaled_dot_product_attention`; absent where there is none. `query` is the
/// stream, of whose element type masks are that are added.
Value join_masks(const Value& query, std::int64_t heads, const MultiHeadAttentionOptions& options,
                 Line line);

}  // namespace metronome::attention
