// Scaled dot-product attention whose scores are never kept: blocks of them are made, used and made
// again for the gradient (Dao et al., "FlashAttention", 2022).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "graph/ir/value.h"
#include "ops/rules/rules.h"

namespace metronome {

/// `Attention` of operands that its kernel can take in blocks: query [..., heads, L, E], key
/// [..., key heads, S, E], value [..., key heads, S, Ev] and, as a fourth or not at all, a mask of
/// bool that broadcasts to [..., heads, L, S]. All leading dimensions are equal, but that the
/// query's heads may be a multiple of the key's and value's: neighbours share one. Results:
/// [..., heads, L, Ev]; saved: the logarithm of each query's sum of exponentials, [..., heads, L].
struct FlashAttention {
  static constexpr std::string_view name = "flash_attention";
  static constexpr int saved = 1;
  double scale = 1;
  bool is_causal = false;

  bool operator==(const FlashAttention&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  double flops(std::span<const Type> in, std::span<const Type> out) const;
  Values vjp(const Vjp& v) const;
  Values lower(std::span<const Value> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(FlashAttention);
METRONOME_CANDIDATES(FlashAttention);

/// Operands: gradient [..., heads, L, Ev]; query, key and value; result and saved logarithms;
/// perhaps the mask. Results: the gradients of query, key and value.
struct FlashAttentionGrad {
  static constexpr std::string_view name = "flash_attention_grad";
  static constexpr bool differentiable = false;
  double scale = 1;
  bool is_causal = false;

  bool operator==(const FlashAttentionGrad&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  double flops(std::span<const Type> in, std::span<const Type> out) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(FlashAttentionGrad);
METRONOME_CANDIDATES(FlashAttentionGrad);

/// True where `FlashAttention` takes these operands of an `Attention`: query, key, value and
/// perhaps a mask.
bool in_blocks(std::span<const Type> in);

/// The sizes of an attention in blocks, whose heads are counted through all leading dimensions.
struct FlashSizes {
  FlashSizes(const Type& query, const Type& key, const Type& value, bool is_causal);

  std::int64_t heads = 0, key_heads = 0;
  std::int64_t queries = 0, keys = 0;
  std::int64_t width = 0, value_width = 0;
  bool is_causal = false;

  std::int64_t group() const { return heads / key_heads; }
  /// Returns how many of the keys the query sees, which are the first ones.
  std::int64_t count_seen_keys(std::int64_t query) const {
    return is_causal && query < keys ? query + 1 : keys;
  }
  /// Pairs of a query and a key that it sees, in all heads.
  double pairs() const;
};

}  // namespace metronome
