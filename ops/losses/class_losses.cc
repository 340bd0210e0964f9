// Each loss checks its operands in one `compose` call, and is then a formula of other functions.
// The losses of classes move these to the last dimension, and go on in three steps:
//
//   each      log(probability) of each row's target       0 if the target is ignored
//   weights   1, or the weight of each row's target       0 if the target is ignored
//   result    none: -each * weights, sum: the sum of these, mean: that sum / sum(weights)
//
// The plain mean of `cross_entropy_loss` is one op, `CrossEntropyLoss`. Label smoothing adds a
// share of the sum over all classes to `each`. The losses of probabilities take care of 0 and 1,
// where logarithms are infinite: `binary_cross_entropy` has the gradient of a second term, whose
// value is 0.
#include "ops/losses/class_losses.h"

#include <fmt/format.h>

#include <functional>
#include <limits>
#include <string_view>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "ops/elementwise/elementwise.h"
#include "ops/expr/functions.h"
#include "ops/language/composed.h"
#include "ops/language/layers.h"
#include "ops/losses/reduced.h"
#include "ops/mean_losses/mean_losses.h"
#include "ops/mean_losses/targets.h"
#include "ops/pick/pick.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Picks from each row of [..., classes] the element of its target; 0 if the target is ignored.
Value of_target(Value rows, Value targets, std::int64_t ignored) {
  return apply(Pick{ignored}, {rows, targets}, Line{});
}

/// Returns each row's weight: 1 or its target's weight, 0 if the target is ignored.
Value weights_of(Value rows, Value targets, const NllOptions& options) {
  if (options.weight.present()) {
    return of_target(expand(stop_gradient(options.weight), rows.shape()), targets,
                     options.ignore_index);
  }
  return not_equal(targets, static_cast<double>(options.ignore_index)).cast(rows.element());
}

Value weigh(Value each, Value weights, LossReduction reduction) {
  if (reduction == LossReduction::none) return each;
  const Value total = sum(each);
  return reduction == LossReduction::sum ? total : total / sum(weights);
}

void require_rows(const Value& x, const Value& targets, const NllOptions& options) {
  require_targets(x.type(), targets.type(), options.axis);
  require_some(x, options.reduction);
  const Value& weight = options.weight;
  const Type each{x.element(), {x.size(options.axis.value_or(-1))}};
  if (!weight.present() || weight.type() == each) return;
  throw Requirement{fmt::format("a weight for each class, {}, but {}", to_string(each),
                                to_string(weight.type()))};
}

Value compose_with(std::string_view name, Value x, Value target, Value weight, Line line,
                   const std::function<void()>& check, const std::function<Value()>& build) {
  return weight.present() ? compose(name, {x, target, weight}, line, check, build)
                          : compose(name, {x, target}, line, check, build);
}

NllOptions nll_of(const CrossEntropyOptions& options) {
  return {options.ignore_index, options.weight, options.reduction, options.axis};
}

/// Whether it is clear that classes lie along the last dimension.
bool are_last(const Value& logits, const Value& targets, std::optional<std::int64_t> axis,
              Line line) {
  if (axis == -1 || !logits.usable(line) || !targets.usable(line)) return true;
  if (axis) return *axis == logits.rank() - 1;
  if (logits.rank() <= 2) return true;
  const Shape rows_1 = rows_of(logits.type(), 1);
  return targets.shape() != rows_1 && rows_of(logits.type(), -1) != rows_1;
}

Value smooth_labels(Value logits, Value targets, const CrossEntropyOptions& options) {
  const Value log_probabilities = log_softmax(logits);
  const Value weights = weights_of(logits, targets, nll_of(options));
  const double share = options.label_smoothing;
  Value each = of_target(log_probabilities, targets, options.ignore_index);
  if (options.weight.present()) each = each * weights;
  if (share > 0) {
    Value all = log_probabilities;
    if (options.weight.present()) all = all * stop_gradient(options.weight);
    const Value ignored = equal(targets, static_cast<double>(options.ignore_index));
    const auto classes = static_cast<double>(logits.size(-1));
    each = each * (1 - share) + where(ignored, 0.0, sum(all, -1)) * (share / classes);
  }
  return weigh(-each, weights, options.reduction);
}

}  // namespace

Value cross_entropy_loss(Value logits, Value targets, CrossEntropyOptions options, Line line) {
  const bool plain = options.label_smoothing == 0 && !options.weight.present() &&
                     options.reduction == LossReduction::mean;
  if (plain && are_last(logits, targets, options.axis, line)) {
    return apply(CrossEntropyLoss{options.ignore_index}, {logits, targets}, line);
  }
  const auto check = [&] {
    require(unless_share("label_smoothing", options.label_smoothing));
    require_rows(logits, targets, nll_of(options));
  };
  return compose_with("cross_entropy_loss", logits, targets, options.weight, line, check, [&] {
    const Value rows = with_classes_last(logits, options.axis);
    if (plain) return apply(CrossEntropyLoss{options.ignore_index}, {rows, targets}, line);
    return smooth_labels(rows, targets, options);
  });
}

Value nll_loss(Value log_probabilities, Value targets, NllOptions options, Line line) {
  const auto check = [&] { require_rows(log_probabilities, targets, options); };
  return compose_with("nll_loss", log_probabilities, targets, options.weight, line, check, [&] {
    const Value rows = with_classes_last(log_probabilities, options.axis);
    const Value weights = weights_of(rows, targets, options);
    Value each = of_target(rows, targets, options.ignore_index);
    if (options.weight.present()) each = each * weights;
    return weigh(-each, weights, options.reduction);
  });
}

Value kl_div(Value log_probabilities, Value target, KlDivOptions options, Line line) {
  const auto check = [&] {
    require_alike({log_probabilities, target});
    require_some(target, options.reduction);
  };
  return compose("kl_div", {log_probabilities, target}, line, check, [&] {
    // A class of no probability adds nothing, whatever is predicted: 0 times infinity is 0 here.
    const Value none = equal(target, options.log_target ? -kInfinity : 0.0);
    const Value some = where(none, options.log_target ? 0.0 : 1.0, target);
    const Value apart =
        (options.log_target ? some : log(some)) - where(none, 0.0, log_probabilities);
    return reduce_loss(where(none, 0.0, (options.log_target ? exp(some) : some) * apart),
                       options.reduction);
  });
}

Value binary_cross_entropy(Value probabilities, Value target, BinaryCrossEntropyOptions options,
                           Line line) {
  const auto check = [&] {
    require_alike({probabilities, target});
    require_broadcasts("weight", options.weight, probabilities);
    require_some(target, options.reduction);
  };
  const auto build = [&] {
    // The value's own slope is not a number at 0 and 1; the gradient is that of the second term.
    const Value x = stop_gradient(probabilities), t = stop_gradient(target);
    const Value slope = (x - t) / maximum((1.0 - x) * x, 1e-12);
    const Value value =
        (target - 1.0) * maximum(log1p(-x), -100.0) - target * maximum(log(x), -100.0);
    Value each = value + slope * (probabilities - x);
    if (options.weight.present()) each = each * options.weight;
    return reduce_loss(each, options.reduction);
  };
  return compose_with("binary_cross_entropy", probabilities, target, options.weight, line, check,
                      build);
}

Value bce_with_logits_loss(Value logits, Value target, BceWithLogitsOptions options, Line line) {
  const auto check = [&] {
    require_alike({logits, target});
    require_broadcasts("weight", options.weight, logits);
    require_broadcasts("pos_weight", options.pos_weight, logits);
    require_some(target, options.reduction);
  };
  const auto build = [&] {
    Value each;
    if (options.pos_weight.present()) {
      each = (1.0 - target) * softplus(logits) + options.pos_weight * target * softplus(-logits);
    } else {
      each = elementwise(Function::bce_with_logits, {logits, target});
    }
    if (options.weight.present()) each = each * options.weight;
    return reduce_loss(each, options.reduction);
  };
  constexpr const char* kName = "bce_with_logits_loss";
  if (options.pos_weight.present() && options.weight.present()) {
    return compose(kName, {logits, target, options.weight, options.pos_weight}, line, check, build);
  }
  const Value& one = options.pos_weight.present() ? options.pos_weight : options.weight;
  return compose_with(kName, logits, target, one, line, check, build);
}

Value sigmoid_focal_loss(Value logits, Value target, FocalOptions options, Line line) {
  const auto check = [&] {
    require(unless_at_least_0("gamma", options.gamma));
    require(unless_finite("alpha", options.alpha));
    require_alike({logits, target});
    require_some(target, options.reduction);
  };
  return compose("sigmoid_focal_loss", {logits, target}, line, check, [&] {
    // Not 0, of which a power below 1 has an infinite slope, to be multiplied by a loss of 0.
    const Value missed =
        at_least(sigmoid(logits) * (1.0 - target) + sigmoid(-logits) * target, 1e-37);
    Value each =
        elementwise(Function::bce_with_logits, {logits, target}) * pow(missed, options.gamma);
    if (options.alpha >= 0) {
      each = each * (target * options.alpha + (1.0 - target) * (1 - options.alpha));
    }
    return reduce_loss(each, options.reduction);
  });
}

}  // namespace metronome
