// Losses: how far a prediction is from its target, as a scalar; the mean over all elements (over
// all rows for classes) is one op (ops/mean_losses). With other reductions, weights or smoothing
// they are formulas, as are the losses of class_losses.h and distance_losses.h.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/ir/line.h"
#include "graph/ir/value.h"

namespace metronome {

/// How a loss joins its elements.
enum class LossReduction : std::uint8_t { mean, sum, none };

/// (prediction - target)^2 of each element.
Value mse_loss(Value prediction, Value target, Line line = Line::here());
Value mse_loss(Value prediction, Value target, LossReduction reduction, Line line = Line::here());
/// |prediction - target|.
Value l1_loss(Value prediction, Value target, Line line = Line::here());
Value l1_loss(Value prediction, Value target, LossReduction reduction, Line line = Line::here());
/// d^2 / (2 beta) where d = |prediction - target| is below beta, d - beta / 2 elsewhere.
Value smooth_l1_loss(Value prediction, Value target, double beta = 1, Line line = Line::here());
Value smooth_l1_loss(Value prediction, Value target, double beta, LossReduction reduction,
                     Line line = Line::here());

struct CrossEntropyOptions {
  /// The target of rows that count for nothing, padding: neither in the sum nor in the number of
  /// rows that it is divided by. May be in range.
  std::int64_t ignore_index = -100;
  /// The share of each target that is spread evenly over all classes, 0 to 1 (Szegedy et al.,
  /// 2016).
  double label_smoothing = 0;
  /// The weight of each class, [classes], of the logits' type; no gradient flows to it. The mean
  /// divides by the sum of the targets' weights. Absent: all 1.
  Value weight = {};
  LossReduction reduction = LossReduction::mean;  ///< none: 0 for rows that are ignored
  /// The dimension of the logits along which classes lie; 1 for [N, C, H, W] as PyTorch has them.
  /// Absent: the last one, unless the targets' shape fits dimension 1 as well: then it must be
  /// said.
  std::optional<std::int64_t> axis = {};
};
/// Logits [..., classes], targets [...] i64.
Value cross_entropy_loss(Value logits, Value targets, CrossEntropyOptions options = {},
                         Line line = Line::here());

/// -(target log p + (1 - target) log(1 - p)) for p = sigmoid(logits), which keeps its digits in
/// both tails.
Value bce_with_logits_loss(Value logits, Value target, Line line = Line::here());
struct BceWithLogitsOptions {
  /// Both broadcast to the logits, whose type they have: a factor of each element's loss, and one
  /// of its part for positive targets. Absent: 1.
  Value weight = {}, pos_weight = {};
  LossReduction reduction = LossReduction::mean;
};
/// bce_with_logits_loss with weights and any reduction.
Value bce_with_logits_loss(Value logits, Value target, BceWithLogitsOptions options,
                           Line line = Line::here());

struct AccuracyOptions {
  /// As for the loss, so that the same targets do for both.
  std::int64_t ignore_index = -100;
  std::optional<std::int64_t> axis = {};
};
/// The share of rows whose largest logit is the target's, f32[], among those whose target is not
/// `ignore_index`; NaN if all are ignored. Logits [..., classes], targets [...] i64. No gradient
/// flows through it.
Value accuracy(Value logits, Value targets, AccuracyOptions options = {}, Line line = Line::here());

}  // namespace metronome
