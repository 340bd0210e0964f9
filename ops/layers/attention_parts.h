// Parts of the attention layers: checks of several operands, and linear layers and norms under the
// names that PyTorch's modules give them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/init.h"
#include "graph/ir/line.h"
#include "graph/ir/value.h"

namespace metronome::attention {

/// build() if check() throws no Requirement, else a poisoned value and the mistake recorded with
/// all operands. The first operand is the stream; where one is poisoned the result is, too.
template <class Check, class Build>
Value build_checked(std::string_view name, const Values& operands, Line line, const Check& check,
                    const Build& build) {
  const Value& x = operands.front();
  if (!x.present()) {
    throw GraphError(
        {fmt::format("{}: {} has no operand that belongs to a graph\n"
                     "  way out    begin with Graph::input or Graph::parameter",
                     to_string(line), name)});
  }
  Emitter* const graph = x.emitter(line);
  for (const Value& operand : operands) {
    if (operand.poisoned()) return Value(graph, ValueId{});
  }
  const LineScope line_scope(graph, line);
  try {
    for (const Value& operand : operands) {
      if (!operand.present()) throw Requirement{"operands that belong to a graph"};
    }
    check();
  } catch (const Requirement& requirement) {
    return mistake(graph, line, fmt::format("{} cannot be applied", name), operands, requirement);
  }
  return build();
}

/// Throws Requirement unless `count` is 1 or more: "a number of heads of 1 or more, but 0".
void require_at_least_one(std::string_view what, std::int64_t count);

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
