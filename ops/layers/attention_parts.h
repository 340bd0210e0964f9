// Parts of the attention layers: linear layers and norms under the names that PyTorch's modules
// give them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/ir/init.h"
#include "graph/ir/line.h"
#include "graph/ir/value.h"
#include "ops/language/checked.h"

namespace metronome::attention {

/// x W^T + bias with the parameters `<name>/weight` [out, in] and `<name>/bias`. Without an init
/// both begin as those of `linear`.
struct NamedLinear {
  std::string_view name;
  bool bias = true;
  std::optional<Init> weight_init = {};
  std::optional<Init> bias_init = {};
  Value operator()(Value x, std::int64_t out, Line line) const;
};

/// `layer_norm` with the parameters `<name>/weight` and `<name>/bias`.
Value layer_norm_as(std::string_view name, Value x, double eps, Line line);

/// `dropout(p)`; x itself where p is 0.
Value apply_dropout(Value x, double p, Line line);

}  // namespace metronome::attention
