#include "ops/mean_losses/mean_losses.h"

#include <fmt/format.h>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/elementwise/elementwise.h"
#include "ops/expr/functions.h"
#include "ops/mean_losses/targets.h"
#include "ops/pick/pick.h"
#include "ops/rules/require.h"
#include "ops/softmax/softmax.h"

namespace metronome {

namespace {

void require_operands(std::span<const Type> in) {
  if (in.size() != 2) throw Requirement{fmt::format("2 operands, but {}", in.size())};
}

void require_elements(const Type& type) {
  if (type.numel() > 0) return;
  throw Requirement{fmt::format("one element or more, as the mean of none is not a number, but {}",
                                to_string(type.shape))};
}

// Prediction and target of one floating type.
Types scalar_of_equal(std::span<const Type> in) {
  require_operands(in);
  require_equal_elements(in);
  require_floating(in[0]);
  require_equal_shapes(in[0], in[1], "target");
  require_elements(in[0]);
  return {Type{in[0].element, {}}};
}

}  // namespace

Types MseLoss::infer(std::span<const Type> in) const { return scalar_of_equal(in); }

Values MseLoss::lower(std::span<const Value> in) const { return {mean(square(in[0] - in[1]))}; }

Types L1Loss::infer(std::span<const Type> in) const { return scalar_of_equal(in); }

Values L1Loss::lower(std::span<const Value> in) const { return {mean(abs(in[0] - in[1]))}; }

std::string SmoothL1Loss::attributes() const { return fmt::format("beta={}", beta); }

Types SmoothL1Loss::infer(std::span<const Type> in) const {
  require(unless_at_least_0("beta", beta));
  Types result = scalar_of_equal(in);
  const Element element = in[0].element;
  if (beta > 0 && !(holds(element, beta) && holds(element, 0.5 / beta))) {
    throw Requirement{fmt::format("a beta of 0, or one that {} can hold, as 0.5 / beta too, but {}",
                                  name_of(element), beta)};
  }
  return result;
}

Values SmoothL1Loss::lower(std::span<const Value> in) const {
  const Value distance = abs(in[0] - in[1]);
  if (beta == 0) return {mean(distance)};
  return {mean(where(distance < beta, square(distance) * (0.5 / beta), distance - 0.5 * beta))};
}

Types CrossEntropyLoss::infer(std::span<const Type> in) const {
  require_operands(in);
  require_targets(in[0], in[1], -1);
  require_elements(in[0]);
  return {Type{in[0].element, {}}};
}

std::string CrossEntropyLoss::attributes() const {
  return ignore_index == CrossEntropyLoss{}.ignore_index
             ? ""
             : fmt::format("ignore_index={}", ignore_index);
}

std::optional<Indexing> CrossEntropyLoss::indexing(std::span<const Type> in) const {
  return Pick{ignore_index}.indexing(in);
}

Values CrossEntropyLoss::lower(std::span<const Value> in) const {
  const Value log_probabilities = apply(Softmax{-1, true}, {in[0]}, Line{});
  const Value picked = apply(Pick{ignore_index}, {log_probabilities, in[1]}, Line{});
  const Value kept = not_equal(in[1], static_cast<double>(ignore_index));
  const Value rows = sum(kept.cast(in[0].element()));
  return {sum(picked) / -rows};
}

Types BceWithLogitsLoss::infer(std::span<const Type> in) const { return scalar_of_equal(in); }

Values BceWithLogitsLoss::lower(std::span<const Value> in) const {
  return {mean(elementwise(Function::bce_with_logits, {in[0], in[1]}))};
}

}  // namespace metronome
