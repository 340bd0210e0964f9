#include "ops/layers/attention_parts.h"

#include <cmath>

#include "ops/language/init.h"
#include "ops/language/layers.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/matmul/matmul.h"

namespace metronome::attention {

Value NamedLinear::operator()(Value x, std::int64_t out, Line line) const {
  if (x.poisoned()) return x;
  const PathScope scope(x.emitter(), name, PathScope::Kind::layer);
  const std::int64_t in = x.size(-1);
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  const Value weight =
      make_parameter(x.emitter(), "weight", {x.element(), {out, in}},
                     weight_init.value_or(kaiming_uniform(in, std::sqrt(5.0))), line);
  if (weight.poisoned()) return weight;  // a bias would tell of the same mistake
  if (!bias) return apply(Linear{}, {x, weight}, line);
  const Value addend = make_parameter(x.emitter(), "bias", {x.element(), {out}},
                                      bias_init.value_or(uniform(-bound, bound)), line);
  return apply(Linear{}, {x, weight, addend}, line);
}

Value layer_norm_as(std::string_view name, Value x, double eps, Line line) {
  if (x.poisoned()) return x;
  const PathScope scope(x.emitter(), name, PathScope::Kind::layer);
  const Type type{x.element(), {x.size(-1)}};
  const Value weight = make_parameter(x.emitter(), "weight", type, ones(), line);
  const Value bias = make_parameter(x.emitter(), "bias", type, zeros(), line);
  return apply_all(LayerNorm{eps}, {x, weight, bias}, 3, line)[0];
}

Value apply_dropout(Value x, double p, Line line) {
  return p > 0 && !x.poisoned() ? dropout(p)(x, line) : x;
}

}  // namespace metronome::attention
