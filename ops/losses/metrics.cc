#include "ops/losses/metrics.h"

#include <fmt/format.h>

#include <string_view>

#include "graph/ir/error.h"
#include "ops/expr/functions.h"
#include "ops/language/composed.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

void require_masks(const Value& prediction, const Value& target, const OverlapOptions& options) {
  require(unless_above_0("smooth", options.smooth));
  if (prediction.element() == bool_ && target.element() == bool_) {
    require_equal_shapes(prediction.type(), target.type(), "x");
  } else {
    require_alike({prediction, target});
  }
  if (prediction.rank() < 3 || numel(prediction.shape()) == 0) {
    throw Requirement{fmt::format("masks [N, C, spatial...] of one element or more, but {}",
                                  to_string(prediction.shape())),
                      prediction.rank() == 2 ? "reshape them, to one channel: [N, 1, pixels]" : ""};
  }
}

/// Sums over each image's channel.
struct Sums {
  Value common, prediction, target;
};

Sums sums_of(Value prediction, Value target) {
  const auto planes = [](Value x) {
    if (x.element() == bool_) x = x.cast(f32);
    return x.reshape({x.size(0), x.size(1), -1});
  };
  const Value p = planes(prediction), t = planes(target);
  return {sum(p * t, -1), sum(p, -1), sum(t, -1)};
}

template <class Of>
Value overlap(std::string_view name, const Value& prediction, const Value& target,
              const OverlapOptions& options, Line line, const Of& of) {
  const auto check = [&] { require_masks(prediction, target, options); };
  return compose(name, {prediction, target}, line, check,
                 [&] { return of(sums_of(prediction, target)); });
}

Value dice_of(const Sums& sums, double smooth) {
  return mean((2.0 * sums.common + smooth) / (sums.prediction + sums.target + smooth));
}

}  // namespace

Value dice_loss(Value probabilities, Value target, OverlapOptions options, Line line) {
  return overlap("dice_loss", probabilities, target, options, line,
                 [&](const Sums& sums) { return 1.0 - dice_of(sums, options.smooth); });
}

namespace metrics {

Value dice(Value prediction, Value target, OverlapOptions options, Line line) {
  return overlap("dice", prediction, target, options, line,
                 [&](const Sums& sums) { return dice_of(sums, options.smooth); });
}

Value iou(Value prediction, Value target, OverlapOptions options, Line line) {
  return overlap("iou", prediction, target, options, line, [&](const Sums& sums) {
    const Value either = sums.prediction + sums.target - sums.common;
    return mean((sums.common + options.smooth) / (either + options.smooth));
  });
}

Value perplexity(Value logits, Value targets, AccuracyOptions options, Line line) {
  return exp(cross_entropy_loss(logits, targets,
                                {.ignore_index = options.ignore_index, .axis = options.axis}, line),
             line);
}

}  // namespace metrics
}  // namespace metronome
