// Losses of classes and of probabilities, with PyTorch's names and defaults; formulas of other
// functions, of f32 and f64. Classes lie along the last dimension, unless `axis` says another one.
// Predictions and targets that are numbers have one type: they are not broadcast, which would hide
// a forgotten dimension.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/ir/line.h"
#include "graph/ir/value.h"
#include "ops/losses/losses.h"

namespace metronome {

struct NllOptions {
  std::int64_t ignore_index = -100;  ///< this and the weight as of CrossEntropyOptions
  Value weight = {};
  LossReduction reduction = LossReduction::mean;
  std::optional<std::int64_t> axis = {};  ///< as of CrossEntropyOptions
};
/// -x[..., target], for logarithms of probabilities x [..., classes] and targets [...] i64. A
/// target out of range adds 0 and is reported (`Executable::fault`).
Value nll_loss(Value log_probabilities, Value targets, NllOptions options = {},
               Line line = Line::here());

struct KlDivOptions {
  bool log_target = false;  ///< the target, too, is given as logarithms
  /// PyTorch's "batchmean" is the sum, divided by the number of rows.
  LossReduction reduction = LossReduction::mean;
};
/// target (log(target) - x), for logarithms of probabilities x; 0 where the target is 0.
Value kl_div(Value log_probabilities, Value target, KlDivOptions options = {},
             Line line = Line::here());

struct BinaryCrossEntropyOptions {
  Value weight = {};  ///< broadcast to the probabilities, whose type it has; absent: 1
  LossReduction reduction = LossReduction::mean;
};
/// -(target log x + (1 - target) log(1 - x)) for probabilities x; logarithms are no less than -100,
/// and the gradient divides by no less than 1e-12. For logits take `bce_with_logits_loss`.
Value binary_cross_entropy(Value probabilities, Value target,
                           BinaryCrossEntropyOptions options = {}, Line line = Line::here());

struct FocalOptions {
  double alpha = 0.25;  ///< weight of positive targets, 1 - alpha of the others; negative: none
  double gamma = 2;     ///< 0 or more
  LossReduction reduction = LossReduction::none;
};
/// alpha (1 - p)^gamma bce_with_logits_loss, p the probability given to the target (Lin et al.,
/// 2017): torchvision.ops.sigmoid_focal_loss, and so not reduced unless asked.
Value sigmoid_focal_loss(Value logits, Value target, FocalOptions options = {},
                         Line line = Line::here());

}  // namespace metronome
