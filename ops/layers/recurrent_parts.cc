#include "ops/layers/recurrent_parts.h"

#include <fmt/format.h>

#include <cmath>

#include "graph/ir/error.h"
#include "ops/language/init.h"
#include "ops/rules/require.h"

namespace metronome::recurrent {

Weights make_weights(Emitter* emitter, RecurrentKind kind, Type input, std::int64_t hidden,
                     const CellOptions& options, const std::string& suffix, Line line) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  const std::int64_t rows = gates_of(kind) * hidden;
  const auto make = [&](const char* name, Shape shape, const std::optional<Init>& init) {
    return make_parameter(emitter, name + suffix, {input.element, std::move(shape)},
                          init.value_or(uniform(-bound, bound)), line);
  };
  Weights weights;
  weights.ih = make("weight_ih", {rows, input.shape.back()}, options.weight_init);
  if (weights.ih.poisoned()) return weights;  // the others would tell of the same mistake
  weights.hh = make("weight_hh", {rows, hidden}, options.weight_init);
  if (!options.bias || weights.hh.poisoned()) return weights;
  weights.bias_ih = make("bias_ih", {rows}, options.bias_init);
  if (weights.bias_ih.poisoned()) return weights;
  weights.bias_hh = make("bias_hh", {rows}, options.bias_init);
  return weights;
}

void require_options(std::int64_t hidden, bool bias, const std::optional<Init>& bias_init) {
  require_at_least_one("a hidden width", hidden);
  require_bias(bias, bias_init);
}

void require_state(std::string_view what, const Value& state, const Type& type) {
  if (!state.present() || state.type() == type) return;
  throw Requirement{
      fmt::format("a first {} {}, but {}", what, to_string(type), to_string(state.type()))};
}

bool passes(const std::string& name, std::span<const Value> operands, Line line,
            const std::function<void()>& check) {
  try {
    for (const Value& operand : operands) {
      if (operand.identity() == operands[0].identity()) continue;
      throw Requirement{fmt::format("operands of one graph, but of \"{}\" and \"{}\"",
                                    operands[0].identity()->name, operand.identity()->name)};
    }
    check();
  } catch (const Requirement& requirement) {
    mistake(operands[0].emitter(line), line, fmt::format("{} cannot be applied", name), operands,
            requirement);
    return false;
  }
  return true;
}

}  // namespace metronome::recurrent
