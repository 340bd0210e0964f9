// Losses: how far a prediction is from its target, as a scalar; the mean over all elements (over
// all rows for classes). Each is a composite: `lower` writes it out in other ops, and libtorch's
// own loss is its eager form. With other reductions, weights or smoothing they are formulas, as are
// the losses of class_losses.h and distance_losses.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/line.h"
#include "graph/ir/op.h"
#include "graph/ir/value.h"
#include "ops/rules/rules.h"

namespace metronome {

/// Mean of (prediction - target)^2. Operands of one floating type.
struct MseLoss {
  static constexpr std::string_view name = "mse_loss";
  bool operator==(const MseLoss&) const = default;
  Types infer(std::span<const Type> in) const;
  Values lower(std::span<const Value> in) const;
  static std::vector<Case> cases();
};
METRONOME_COMPOSITE(MseLoss);

/// Mean of |prediction - target|. Operands of one floating type.
struct L1Loss {
  static constexpr std::string_view name = "l1_loss";
  bool operator==(const L1Loss&) const = default;
  Types infer(std::span<const Type> in) const;
  Values lower(std::span<const Value> in) const;
  static std::vector<Case> cases();
};
METRONOME_COMPOSITE(L1Loss);

/// Mean of d^2 / (2 beta) where d = |prediction - target| is below beta, of d - beta / 2 elsewhere
/// (Girshick, "Fast R-CNN", 2015). Operands of one floating type; beta >= 0.
struct SmoothL1Loss {
  static constexpr std::string_view name = "smooth_l1_loss";
  double beta = 1;
  bool operator==(const SmoothL1Loss&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values lower(std::span<const Value> in) const;
  static std::vector<Case> cases();
};
METRONOME_COMPOSITE(SmoothL1Loss);

/// Mean of -log softmax(logits)[target] over the rows whose target is not `ignore_index`, as
/// torch.nn.functional.cross_entropy; NaN if all are ignored, as there. Logits [..., classes]
/// floating, targets [...] i64 from 0 to classes - 1, or `ignore_index`. Any other target adds zero
/// to the sum and is reported (`Executable::fault`); `eager` throws RunError for it.
struct CrossEntropyLoss {
  static constexpr std::string_view name = "cross_entropy_loss";
  std::int64_t ignore_index = -100;

  bool operator==(const CrossEntropyLoss&) const = default;
  std::string attributes() const;
  std::optional<Indexing> indexing(std::span<const Type> in) const;
  Types infer(std::span<const Type> in) const;
  Values lower(std::span<const Value> in) const;
  static std::vector<Case> cases();
};
METRONOME_COMPOSITE(CrossEntropyLoss);

/// Mean of -(target log s + (1 - target) log(1 - s)), s = sigmoid(logits), as log(1 + exp(logits))
/// - target * logits, which neither overflows nor loses digits. Operands of one floating type.
struct BceWithLogitsLoss {
  static constexpr std::string_view name = "bce_with_logits_loss";
  bool operator==(const BceWithLogitsLoss&) const = default;
  Types infer(std::span<const Type> in) const;
  Values lower(std::span<const Value> in) const;
  static std::vector<Case> cases();
};
METRONOME_COMPOSITE(BceWithLogitsLoss);

/// How a loss joins its elements.
enum class LossReduction : std::uint8_t { mean, sum, none };

Value mse_loss(Value prediction, Value target, Line line = Line::here());
Value mse_loss(Value prediction, Value target, LossReduction reduction, Line line = Line::here());
Value l1_loss(Value prediction, Value target, Line line = Line::here());
Value l1_loss(Value prediction, Value target, LossReduction reduction, Line line = Line::here());
Value smooth_l1_loss(Value prediction, Value target, double beta = 1, Line line = Line::here());
Value smooth_l1_loss(Value prediction, Value target, double beta, LossReduction reduction,
                     Line line = Line::here());

struct CrossEntropyOptions {
  /// The target of rows that count for nothing, padding: neither in the sum nor in the number of
  /// rows that it is divided by. May be in range.
  std::int64_t ignore_index = -100;
  /// What share of each target is spread evenly over all classes, 0 to 1 (Szegedy et al., 2016).
  double label_smoothing = 0;
  /// Of each class, [classes], of the logits' type; no gradient flows to it. The mean divides by
  /// the sum of the targets' weights. Absent: all 1.
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

Value bce_with_logits_loss(Value logits, Value target, Line line = Line::here());
struct BceWithLogitsOptions {
  /// Both broadcast to the logits, whose type they have: a factor of each element's loss, and one
  /// of its part for positive targets. Absent: 1.
  Value weight = {}, pos_weight = {};
  LossReduction reduction = LossReduction::mean;
};
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
