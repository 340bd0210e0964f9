#include "ops/losses/losses.h"

#include <fmt/format.h>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/language/functions.h"
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

// Prediction and target of one floating type. Broadcasting them would hide a forgotten dimension.
Types scalar_of_equal(std::span<const Type> in) {
  require_operands(in);
  require_equal_elements(in);
  require_floating(in[0]);
  if (in[0].shape != in[1].shape) {
    const bool same_count = in[0].numel() == in[1].numel();
    throw Requirement{
        fmt::format("equal shapes, but {} and {}", to_string(in[0].shape), to_string(in[1].shape)),
        same_count
            ? fmt::format("reshape one: target.reshape({{{}}})", fmt::join(in[0].shape, ", "))
            : ""};
  }
  require_elements(in[0]);
  return {Type{in[0].element, {}}};
}

void require_classes(std::span<const Type> in) {
  require_operands(in);
  const Type &logits = in[0], &targets = in[1];
  require_floating(logits);
  if (logits.rank() == 0) {
    throw Requirement{"logits with a last dimension of classes, but a scalar"};
  }
  if (targets.element != i64) {
    // One number per class is a distribution, not an index.
    throw Requirement{fmt::format("targets of i64, but {}", name_of(targets.element)),
                      targets.shape == logits.shape
                          ? "give the index of each row's class: mt::argmax(targets)"
                          : "cast them: targets.cast(mt::i64)"};
  }
  const Shape rows(logits.shape.begin(), logits.shape.end() - 1);
  if (targets.shape != rows) {
    throw Requirement{fmt::format("one target for each row of logits, {}, but {}", to_string(rows),
                                  to_string(targets.shape))};
  }
  require_elements(logits);
}

/// Whether a row's target is one to be looked at.
Value kept(const Value& targets, std::int64_t ignored) {
  return not_equal(targets, static_cast<double>(ignored));
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
  require_classes(in);
  return {Type{in[0].element, {}}};
}

std::string CrossEntropyLoss::attributes() const {
  return ignore_index == CrossEntropyOptions{}.ignore_index
             ? ""
             : fmt::format("ignore_index={}", ignore_index);
}

std::optional<Indexing> CrossEntropyLoss::indexing(std::span<const Type> in) const {
  return Pick{ignore_index}.indexing(in);
}

Values CrossEntropyLoss::lower(std::span<const Value> in) const {
  const Value log_probabilities = apply(Softmax{-1, true}, {in[0]}, Line{});
  const Value picked = apply(Pick{ignore_index}, {log_probabilities, in[1]}, Line{});
  const Value rows = sum(kept(in[1], ignore_index).cast(in[0].element()));
  return {sum(picked) / -rows};
}

Types BceWithLogitsLoss::infer(std::span<const Type> in) const { return scalar_of_equal(in); }

Values BceWithLogitsLoss::lower(std::span<const Value> in) const {
  return {mean(softplus(in[0]) - in[1] * in[0])};
}

Value mse_loss(Value prediction, Value target, Line line) {
  return apply(MseLoss{}, {prediction, target}, line);
}
Value l1_loss(Value prediction, Value target, Line line) {
  return apply(L1Loss{}, {prediction, target}, line);
}
Value smooth_l1_loss(Value prediction, Value target, double beta, Line line) {
  return apply(SmoothL1Loss{beta}, {prediction, target}, line);
}
Value bce_with_logits_loss(Value logits, Value target, Line line) {
  return apply(BceWithLogitsLoss{}, {logits, target}, line);
}

Value accuracy(Value logits, Value targets, AccuracyOptions options, Line line) {
  for (const Value& v : {logits, targets}) {
    if (!v.usable(line)) return v;
  }
  LineScope scope(logits.emitter(line), line);
  try {
    require_classes(std::vector<Type>{logits.type(), targets.type()});
  } catch (const Requirement& requirement) {
    return mistake(logits.emitter(), line, "accuracy cannot be computed", {{logits, targets}},
                   requirement);
  }
  const Value counts = kept(targets, options.ignore_index);
  const Value right = logical_and(equal(argmax(logits), targets), counts);
  return sum(right.cast(f32)) / sum(counts.cast(f32));
}

}  // namespace metronome
