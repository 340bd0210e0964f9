// Scaled dot-product attention: a composite of products and a softmax.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/line.h"
#include "graph/ir/op.h"
#include "graph/ir/value.h"
#include "ops/rules/rules.h"

namespace metronome {

/// softmax(scale query key^T + mask) value. Operands: query [..., L, E], key [..., S, E], value
/// [..., S, Ev] and, as a fourth or not at all, a mask that broadcasts to [..., L, S]: bool, true
/// where a key is seen, or numbers that are added. Leading dimensions are broadcast. With
/// `is_causal` query i sees keys 0 to i besides. With `enable_gqa` the heads (dimension -3) of the
/// query are a multiple of the key's and of the value's, and neighbours share one. A query that
/// sees no key gives zeros, and its gradients are zero.
struct Attention {
  static constexpr std::string_view name = "scaled_dot_product_attention";
  double scale = 1;
  bool is_causal = false;
  bool enable_gqa = false;

  bool operator==(const Attention&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values lower(std::span<const Value> in) const;
  static std::vector<Case> cases();

  /// In other ops, with dropout of the weights that the softmax gives.
  Value compose(std::span<const Value> in, double dropout_p, Line line) const;
};

METRONOME_COMPOSITE(Attention);

}  // namespace metronome
