// Metrics that are read of a model beside its loss, and the loss of overlapping masks.
#pragma once

#include "graph/ir/line.h"
#include "graph/ir/value.h"
#include "ops/losses/losses.h"

namespace metronome {

struct OverlapOptions {
  /// Above 0. Added above and below the fraction line, so that two empty masks overlap wholly.
  double smooth = 1e-5;
};

/// 1 - metrics::dice, to be minimised: MONAI's DiceLoss, of probabilities. Take the sigmoid or the
/// softmax of logits before.
Value dice_loss(Value probabilities, Value target, OverlapOptions options = {},
                Line line = Line::here());

namespace metrics {

using metronome::accuracy;

/// The mean over images and channels of 2 |p t| / (|p| + |t|), where |x| is the sum over an image's
/// channel (Sorensen-Dice). Masks are [N, C, spatial...], both bool or both of one floating type
/// (probabilities). The result is a scalar, f32[] for masks of bool.
Value dice(Value prediction, Value target, OverlapOptions options = {}, Line line = Line::here());
/// The mean over images and channels of |p t| / (|p| + |t| - |p t|), intersection over union
/// (Jaccard), of masks as `dice` takes them.
Value iou(Value prediction, Value target, OverlapOptions options = {}, Line line = Line::here());

/// exp(cross_entropy_loss): over how many equally likely classes the model would be as unsure.
/// Logits [..., classes], targets [...] i64. NaN if all targets are ignored.
Value perplexity(Value logits, Value targets, AccuracyOptions options = {},
                 Line line = Line::here());

}  // namespace metrics
}  // namespace metronome
