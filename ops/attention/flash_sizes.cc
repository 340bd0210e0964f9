// Sizes of attention in blocks, and the operations that it takes.
#include <algorithm>
#include <cstdint>
#include <span>

#include "ops/attention/flash_attention.h"
#include "ops/rules/axis.h"

namespace metronome {
namespace {

/// Operations of a forward pass for a pair of a query and a key, beside two products of their
/// widths: scale, largest, exponential, sum.
constexpr double kOpsOfPair = 4;

}  // namespace

FlashSizes::FlashSizes(const Type& query, const Type& key, const Type& value, bool is_causal)
    : heads(numel(leading(query.shape, 2))),
      key_heads(numel(leading(key.shape, 2))),
      queries(query.shape[query.rank() - 2]),
      keys(key.shape[key.rank() - 2]),
      width(query.shape.back()),
      value_width(value.shape.back()),
      is_causal(is_causal) {}

double FlashSizes::pairs() const {
  double seen = static_cast<double>(queries) * static_cast<double>(keys);
  if (is_causal) {
    const auto some = static_cast<double>(std::min(queries, keys));
    seen = some * (some + 1) / 2 +
           static_cast<double>(queries - std::min(queries, keys)) * static_cast<double>(keys);
  }
  return static_cast<double>(heads) * seen;
}

double FlashAttention::flops(std::span<const Type> in, std::span<const Type>) const {
  const FlashSizes s(in[0], in[1], in[2], is_causal);
  return s.pairs() * (2.0 * static_cast<double>(s.width + s.value_width) + kOpsOfPair);
}

double FlashAttentionGrad::flops(std::span<const Type> in, std::span<const Type>) const {
  const FlashSizes s(in[1], in[2], in[3], is_causal);
  return s.pairs() * (2.0 * static_cast<double>(3 * s.width + 2 * s.value_width) + kOpsOfPair);
}

}  // namespace metronome
