#include "ops/layers/attention.h"

#include <cmath>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/layers/attention_parts.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

/// Returns the options' scale, else that of queries of that width.
double scale_of(const Value& query, const AttentionOptions& options) {
  if (options.scale) return *options.scale;
  const bool any = query.rank() > 0 && query.size(-1) > 0;
  return any ? 1 / std::sqrt(static_cast<double>(query.size(-1))) : 1;
}

}  // namespace

Value scaled_dot_product_attention(Value query, Value key, Value value, AttentionOptions options,
                                   Line line) {
  Values operands = {query, key, value};
  if (options.attn_mask.present()) operands.push_back(options.attn_mask);
  const Attention op{.scale = scale_of(query, options),
                     .is_causal = options.is_causal,
                     .enable_gqa = options.enable_gqa};
  const auto check = [&] {
    std::vector<Type> types;
    for (const Value& operand : operands) types.push_back(operand.type());
    op.infer(types);
    require(unless_share("dropout_p", options.dropout_p));
  };
  return build_checked(Attention::name, operands, line, check, [&] {
    if (options.dropout_p == 0) return apply(make_op(op), operands, line)[0];
    // libtorch's own dropout draws other numbers: eager runs these ops, too.
    const PathScope scope(query.emitter(), Attention::name, PathScope::Kind::layer);
    return op.compose(operands, options.dropout_p, line);
  });
}

}  // namespace metronome
