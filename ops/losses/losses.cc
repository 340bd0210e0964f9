#include "ops/losses/losses.h"

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/expr/functions.h"
#include "ops/losses/reduced.h"
#include "ops/mean_losses/mean_losses.h"
#include "ops/mean_losses/targets.h"

namespace metronome {

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
    require_targets(logits.type(), targets.type(), options.axis);
    require_some(logits, LossReduction::mean);
  } catch (const Requirement& requirement) {
    return mistake(logits.emitter(), line, "accuracy cannot be computed", {{logits, targets}},
                   requirement);
  }
  const Value counts = not_equal(targets, static_cast<double>(options.ignore_index));
  const Value right =
      logical_and(equal(argmax(logits, options.axis.value_or(-1)), targets), counts);
  return sum(right.cast(f32)) / sum(counts.cast(f32));
}

}  // namespace metronome
