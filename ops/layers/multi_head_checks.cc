#include "ops/layers/multi_head_checks.h"

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/type.h"
#include "ops/expr/functions.h"
#include "ops/language/init.h"
#include "ops/layers/attention_parts.h"
#include "ops/rules/require.h"

namespace metronome::attention {
namespace {

void require_sizes(const HeadSizes& sizes) {
  require_at_least_one("an embedding", sizes.embed);
  require_at_least_one("a number of heads", sizes.heads);
  require_at_least_one("a number of kv_heads", sizes.kv_heads);
  if (sizes.embed % sizes.heads != 0) {
    throw Requirement{fmt::format("a number of heads that divides the embedding, {}, but {}",
                                  sizes.embed, sizes.heads)};
  }
  if (sizes.heads % sizes.kv_heads != 0) {
    throw Requirement{
        fmt::format("kv_heads that divide the {} heads, but {}", sizes.heads, sizes.kv_heads)};
  }
}

void require_streams(const Value& x, const Value& key, const Value& value, std::int64_t embed,
                     bool batch_first) {
  for (const Value& stream : {x, key, value}) {
    if (stream.rank() == 3) continue;
    throw Requirement{fmt::format("streams {} of three dimensions, but {}",
                                  batch_first ? "[N, L, width]" : "[L, N, width]", stream.rank())};
  }
  require_floating(x.type());
  require_equal_elements(std::vector<Type>{x.type(), key.type(), value.type()});
  if (x.size(-1) != embed) {
    throw Requirement{
        fmt::format("a last dimension of the embedding, {}, but {}", embed, x.size(-1))};
  }
  const int batch = batch_first ? 0 : 1;
  for (const Value& stream : {key, value}) {
    require_at_least_one("a width of key and value", stream.size(-1));
    if (stream.size(batch) != x.size(batch)) {
      throw Requirement{
          fmt::format("as many sequences of keys and values as of queries, {}, but {} and {}",
                      x.size(batch), key.size(batch), value.size(batch))};
    }
  }
  if (key.size(1 - batch) != value.size(1 - batch)) {
    throw Requirement{fmt::format("as many values as keys, but {} and {}", value.size(1 - batch),
                                  key.size(1 - batch))};
  }
  require_at_least_one("a number of keys", key.size(1 - batch));
}

void require_mask(const Value& mask, std::string_view name, Element element,
                  const std::vector<Shape>& shapes) {
  if (!mask.present()) return;
  if (mask.element() != bool_ && mask.element() != element) {
    throw Requirement{fmt::format("{} of bool, or of {} as the stream, but {}", name,
                                  name_of(element), name_of(mask.element()))};
  }
  std::string allowed;
  for (const Shape& shape : shapes) {
    if (mask.shape() == shape) return;
    allowed += (allowed.empty() ? "" : " or ") + to_string(shape);
  }
  throw Requirement{fmt::format("{} of shape {}, but {}", name, allowed, to_string(mask.shape()))};
}

void require_masks(const Value& x, const Value& key, std::int64_t heads,
                   const MultiHeadAttentionOptions& options) {
  const int batch = options.batch_first ? 0 : 1;
  const std::int64_t n = x.size(batch), queries = x.size(1 - batch), keys = key.size(1 - batch);
  require_mask(options.attn_mask, "attn_mask", x.element(),
               {{queries, keys}, {n * heads, queries, keys}});
  require_mask(options.key_padding_mask, "key_padding_mask", x.element(), {{n, keys}});
  require(unless_share("dropout", options.dropout));
  if (!options.rotary) return;
  require(unless_above_0("rotary.base", options.rotary->base));
  if ((x.size(-1) / heads) % 2 != 0) {
    throw Requirement{
        fmt::format("heads of an even width with rotary positions, but of {}", x.size(-1) / heads)};
  }
}

/// A mask as what is added to the scores.
Value additive(const Value& mask, Element element, Line line) {
  if (mask.element() != bool_) return mask;
  const double excluded = -std::numeric_limits<double>::infinity();
  return where(mask, make_constant(mask.emitter(), excluded, {element, {}}, line), 0.0, line);
}

}  // namespace

void require_multi_head(const Value& x, const Value& key, const Value& value,
                        const HeadSizes& sizes, const MultiHeadAttentionOptions& options) {
  require_bias(options.bias, options.bias_init);
  require_sizes(sizes);
  require_streams(x, key, value, sizes.embed, options.batch_first);
  require_masks(x, key, sizes.heads, options);
}

Value join_masks(const Value& query, std::int64_t heads, const MultiHeadAttentionOptions& options,
                 Line line) {
  Value mask = options.attn_mask, padding = options.key_padding_mask;
  if (mask.present() && mask.rank() == 3) {
    mask = mask.reshape({mask.size(0) / heads, heads, mask.size(1), mask.size(2)});
  }
  if (padding.present()) padding = padding.reshape({padding.size(0), 1, 1, padding.size(1)});
  if (mask.present() && padding.present()) {
    if (mask.element() == bool_ && padding.element() == bool_) {
      mask = logical_or(mask, padding);
    } else {
      const Element element = query.element();
      mask = additive(mask, element, line) + additive(padding, element, line);
    }
  } else if (padding.present()) {
    mask = padding;
  }
  return mask.present() && mask.element() == bool_ ? logical_not(mask) : mask;
}

}  // namespace metronome::attention
