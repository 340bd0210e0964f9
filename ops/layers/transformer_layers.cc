#include "ops/layers/transformer_layers.h"

#include <string_view>

#include "ops/layers/attention_parts.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

using attention::apply_dropout;
using attention::NamedLinear;

void require_options(const TransformerLayerOptions& options) {
  require_at_least_one("a dim_feedforward", options.dim_feedforward);
  require(unless_share("dropout", options.dropout));
  require(unless_at_least_0("layer_norm_eps", options.layer_norm_eps));
}

std::optional<Init> out_init(const TransformerLayerOptions& options) {
  return options.out_init ? options.out_init : options.weight_init;
}

/// Returns the options that both attentions of a layer share.
MultiHeadAttentionOptions attention_of(const TransformerLayerOptions& options) {
  return {.dropout = options.dropout,
          .kv_heads = options.kv_heads,
          .batch_first = options.batch_first,
          .weight_init = options.weight_init,
          .out_init = out_init(options),
          .bias_init = options.bias_init};
}

MultiHeadAttentionOptions self_attention(const TransformerLayerOptions& options) {
  MultiHeadAttentionOptions own = attention_of(options);
  own.attn_mask = options.attn_mask;
  own.key_padding_mask = options.key_padding_mask;
  own.is_causal = options.is_causal;
  own.rotary = options.rotary;
  return own;
}

MultiHeadAttentionOptions attention_to(const TransformerMemory& memory,
                                       const TransformerLayerOptions& options) {
  MultiHeadAttentionOptions own = attention_of(options);
  own.key = memory.stream;
  own.attn_mask = memory.attn_mask;
  own.key_padding_mask = memory.key_padding_mask;
  return own;
}

/// A layer at work: its parts change the stream one after the other.
struct Stack {
  std::string_view name;  ///< that messages call it by
  const TransformerLayerOptions& options;
  Line line;
  Value x;

  /// x + part(x), with the norm before the part or behind the sum.
  template <class Part>
  void add(std::string_view norm, const Part& part) {
    const auto normed = [&](Value y) {
      return attention::layer_norm_as(norm, y, options.layer_norm_eps, line);
    };
    if (x.poisoned()) return;
    const Value change = part(options.norm_first ? normed(x) : x);
    if (change.poisoned()) {
      x = change;
      return;
    }
    const Value sum = x + apply_dropout(change, options.dropout, line);
    x = options.norm_first ? sum : normed(sum);
  }

  void attend(std::string_view norm, std::string_view path, std::int64_t heads,
              const MultiHeadAttentionOptions& attention) {
    const std::int64_t width = x.size(-1);
    add(norm, [&](Value y) {
      return attention::multi_head_as(path, name, y, width, heads, attention, line);
    });
  }

  void feed_forward(std::string_view norm) {
    const std::int64_t width = x.size(-1);
    add(norm, [&](Value y) {
      const NamedLinear first{
          .name = "linear1", .weight_init = options.weight_init, .bias_init = options.bias_init};
      const NamedLinear second{
          .name = "linear2", .weight_init = out_init(options), .bias_init = options.bias_init};
      const Value h = first(y, options.dim_feedforward, line);
      if (h.poisoned()) return h;
      return second(apply_dropout(options.activation(h, line), options.dropout, line), width, line);
    });
  }
};

void require_width(const Value& x, std::int64_t width) {
  if (x.rank() != 3) {
    throw Requirement{fmt::format("a stream of three dimensions, but {}", x.rank())};
  }
  require_floating(x.type());
  if (x.size(-1) != width) {
    throw Requirement{fmt::format("a last dimension of the width, {}, but {}", width, x.size(-1))};
  }
}

}  // namespace

Layer transformer_encoder_layer(std::int64_t width, std::int64_t heads,
                                TransformerLayerOptions options) {
  return [=](Value x, Line line) {
    const auto check = [&] {
      require_options(options);
      require_width(x, width);
    };
    constexpr std::string_view kName = "transformer_encoder_layer";
    return build_checked(kName, {x}, line, check, [&] {
      const PathScope scope(x.emitter(), kName, PathScope::Kind::layer);
      Stack stack{kName, options, line, x};
      stack.attend("norm1", "self_attn", heads, self_attention(options));
      stack.feed_forward("norm2");
      return stack.x;
    });
  };
}

Layer transformer_decoder_layer(std::int64_t width, std::int64_t heads, TransformerMemory memory,
                                TransformerLayerOptions options) {
  return [=](Value x, Line line) {
    const auto check = [&] {
      require_options(options);
      require_width(x, width);
    };
    constexpr std::string_view kName = "transformer_decoder_layer";
    return build_checked(kName, {x, memory.stream}, line, check, [&] {
      const PathScope scope(x.emitter(), kName, PathScope::Kind::layer);
      Stack stack{kName, options, line, x};
      stack.attend("norm1", "self_attn", heads, self_attention(options));
      stack.attend("norm2", "multihead_attn", heads, attention_to(memory, options));
      stack.feed_forward("norm3");
      return stack.x;
    });
  };
}

}  // namespace metronome
