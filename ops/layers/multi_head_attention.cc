#include "ops/layers/multi_head_attention.h"

#include <array>

#include "ops/expr/functions.h"
#include "ops/language/init.h"
#include "ops/layers/attention.h"
#include "ops/layers/attention_parts.h"
#include "ops/layers/multi_head_checks.h"
#include "ops/matmul/matmul.h"

namespace metronome {
namespace {

using attention::HeadSizes;
using Streams = std::array<Value, 3>;  // query, key and value, or what is made of each

/// x W^T + bias; an absent bias is none.
Value linear_of(Value x, Value weight, Value bias, Line line) {
  if (!bias.present()) return apply(Linear{}, {x, weight}, line);
  return apply(Linear{}, {x, weight, bias}, line);
}

/// [N, L, heads width] as [N, heads, L, width].
Value by_heads(Value x, std::int64_t width, Line line) {
  return x.reshape({x.size(0), x.size(1), x.size(-1) / width, width}).transpose(1, 2, line);
}

/// Rows of the projections, which lie one after the other.
struct Rows {
  explicit Rows(const HeadSizes& sizes)
      : begin{0, sizes.embed, sizes.embed + sizes.kv_embed()},
        end{begin[1], begin[2], begin[2] + sizes.kv_embed()} {}
  std::int64_t all() const { return end[2]; }
  std::int64_t size(std::size_t i) const { return end[i] - begin[i]; }
  /// Those of one projection, along an axis.
  Value of(std::size_t i, Value x, std::int64_t axis, Line line) const {
    return x.slice(axis, begin[i], end[i], line);
  }

  std::array<std::int64_t, 3> begin, end;
};

/// Self-attention: one product, and where all have as many heads one copy that puts heads first.
Streams project_at_once(Value x, Value weight, Value bias, const HeadSizes& sizes, Line line) {
  const Value sum = linear_of(x, weight, bias, line);
  const std::int64_t n = x.size(0), length = x.size(1), width = sizes.width();
  Streams result;
  if (sizes.kv_heads == sizes.heads) {
    const Value parts =
        permute(sum.reshape({n, length, 3, sizes.heads, width}), {2, 0, 3, 1, 4}, line);
    for (std::size_t i = 0; i < 3; ++i) {
      const auto at = static_cast<std::int64_t>(i);
      result[i] = parts.slice(0, at, at + 1, line).reshape({n, sizes.heads, length, width});
    }
    return result;
  }
  const Rows rows(sizes);
  for (std::size_t i = 0; i < 3; ++i) {
    result[i] = by_heads(rows.of(i, sum, -1, line), width, line);
  }
  return result;
}

/// `in_proj_weight`, or a weight for each where key or value have widths of their own.
Streams make_weights(const Streams& streams, const HeadSizes& sizes,
                     const std::optional<Init>& init, Line line) {
  Emitter* const graph = streams[0].emitter();
  const Element element = streams[0].element();
  const auto make = [&](const char* name, std::int64_t out, std::int64_t in) {
    return make_parameter(graph, name, {element, {out, in}}, init.value_or(xavier_uniform(in, out)),
                          line);
  };
  const Rows rows(sizes);
  if (streams[1].size(-1) == sizes.embed && streams[2].size(-1) == sizes.embed) {
    const Value weight = make("in_proj_weight", rows.all(), sizes.embed);
    return {weight, weight, weight};
  }
  return {make("q_proj_weight", rows.size(0), sizes.embed),
          make("k_proj_weight", rows.size(1), streams[1].size(-1)),
          make("v_proj_weight", rows.size(2), streams[2].size(-1))};
}

/// [N, heads, L, width] of queries, keys and values.
Streams heads_of(const Streams& streams, const HeadSizes& sizes,
                 const MultiHeadAttentionOptions& options, Line line) {
  const Rows rows(sizes);
  const bool biased = options.bias;
  const Streams weights = make_weights(streams, sizes, options.weight_init, line);
  for (const Value& weight : weights) {
    if (weight.poisoned()) return {weight, weight, weight};
  }
  Value bias;
  if (biased) {
    bias =
        make_parameter(streams[0].emitter(), "in_proj_bias", {streams[0].element(), {rows.all()}},
                       options.bias_init.value_or(zeros()), line);
    if (bias.poisoned()) return {bias, bias, bias};
  }
  const bool self = streams[1].id() == streams[0].id() && streams[2].id() == streams[0].id();
  if (self) return project_at_once(streams[0], weights[0], bias, sizes, line);
  const bool packed = weights[0].id() == weights[1].id();
  Streams result;
  for (std::size_t i = 0; i < 3; ++i) {
    const Value weight = packed ? rows.of(i, weights[i], 0, line) : weights[i];
    const Value addend = biased ? rows.of(i, bias, 0, line) : Value();
    result[i] = by_heads(linear_of(streams[i], weight, addend, line), sizes.width(), line);
  }
  return result;
}

/// Keys and values that are padding become zeros before they are projected: whatever they hold, the
/// gradient of a projection is of the others alone. The query's own stream stays as it is, as its
/// rows ask, too.
Streams without_padding(const Streams& streams, const MultiHeadAttentionOptions& options,
                        Line line) {
  const Value& padding = options.key_padding_mask;
  if (!padding.present() || padding.element() != bool_) return streams;
  const Value hidden = padding.reshape({padding.size(0), padding.size(1), 1}, line);
  Streams result = streams;
  for (std::size_t i = 1; i < streams.size(); ++i) {
    if (streams[i].id() == streams[0].id()) continue;
    const bool as_before = i == 2 && streams[2].id() == streams[1].id();
    result[i] = as_before ? result[1] : where(hidden, 0.0, streams[i], line);
  }
  return result;
}

Value attend_streams(Streams streams, const HeadSizes& sizes,
                     const MultiHeadAttentionOptions& options, Line line) {
  if (!options.batch_first) {
    const bool one_key = streams[1].id() == streams[0].id();
    const bool one_value = streams[2].id() == streams[1].id();
    streams[0] = streams[0].transpose(0, 1, line);
    streams[1] = one_key ? streams[0] : streams[1].transpose(0, 1, line);
    streams[2] = one_value ? streams[1] : streams[2].transpose(0, 1, line);
  }
  streams = without_padding(streams, options, line);
  auto [query, key, value] = heads_of(streams, sizes, options, line);
  if (query.poisoned()) return query;
  if (options.rotary) {
    query = rotary(query, *options.rotary, line);
    key = rotary(key, *options.rotary, line);
  }
  const Value heads = scaled_dot_product_attention(
      query, key, value,
      {.attn_mask = attention::join_masks(streams[0], sizes.heads, options, line),
       .dropout_p = options.dropout,
       .is_causal = options.is_causal,
       .enable_gqa = sizes.kv_heads != sizes.heads},
      line);
  const Value rows = heads.transpose(1, 2, line).reshape(streams[0].shape());
  const attention::NamedLinear out{.name = "out_proj",
                                   .bias = options.bias,
                                   .weight_init = options.out_init,
                                   .bias_init = options.bias_init.value_or(zeros())};
  const Value result = out(rows, sizes.embed, line);
  return options.batch_first ? result : result.transpose(0, 1, line);
}

}  // namespace

namespace attention {

Value multi_head_as(std::string_view path, std::string_view called, Value x, std::int64_t embed,
                    std::int64_t heads, const MultiHeadAttentionOptions& options, Line line) {
  const HeadSizes sizes{embed, heads, options.kv_heads == 0 ? heads : options.kv_heads};
  const Value key = options.key.present() ? options.key : x;
  const Value value = options.value.present() ? options.value : key;
  Values operands = {x};
  for (const Value& given :
       {options.key, options.value, options.attn_mask, options.key_padding_mask}) {
    if (given.present()) operands.push_back(given);
  }
  const auto check = [&] { require_multi_head(x, key, value, sizes, options); };
  return build_checked(called, operands, line, check, [&] {
    const PathScope scope(x.emitter(), path, PathScope::Kind::layer);
    return attend_streams({x, key, value}, sizes, options, line);
  });
}

}  // namespace attention

Layer multi_head_attention(std::int64_t embed, std::int64_t heads,
                           MultiHeadAttentionOptions options) {
  return [=](Value x, Line line) {
    return attention::multi_head_as("multi_head_attention", "multi_head_attention", x, embed, heads,
                                    options, line);
  };
}

}  // namespace metronome
