// Losses of ATen. Their reduction is a number: 0 for none, 1 for the mean, 2 for the sum.
#include "ops/losses/losses.h"
#include <algorithm>

#include "executor/import/aten/call.h"
#include "ops/language/layers.h"
#include "ops/losses/class_losses.h"
#include "ops/losses/distance_losses.h"

namespace metronome::pt2 {
namespace {

LossReduction reduction_of(const Call& c) {
  switch (c.integer("reduction", 1)) {
    case 0:
      return LossReduction::none;
    case 1:
      return LossReduction::mean;
    case 2:
      return LossReduction::sum;
    default:
      throw Unsupported{"its reduction is neither none, mean nor sum"};
  }
}

/// The axis of classes: the second one, but of a single row the only one.
std::int64_t classes_of(const Value& x) { return x.rank() > 1 ? 1 : 0; }

/// The loss of targets that are probabilities of the classes.
Value of_probabilities(const Call& c, const Value& x, Value target) {
  const std::int64_t axis = classes_of(x), classes = x.size(axis);
  const double smoothing = c.number("label_smoothing", 0);
  if (smoothing > 0) {
    target = target * Operand(1 - smoothing, c.line()) +
             Operand(smoothing / static_cast<double>(classes), c.line());
  }
  Value each = log_softmax(x, axis, c.line()) * target;
  if (const Value weight = c.value_or_absent("weight"); weight.present()) {
    Shape shape(static_cast<std::size_t>(x.rank()), 1);
    shape[static_cast<std::size_t>(axis)] = classes;
    each = each * weight.reshape(shape, c.line());
  }
  each = -Operand(sum(each, axis, false, c.line()), c.line());
  switch (reduction_of(c)) {
    case LossReduction::none:
      return each;
    case LossReduction::sum:
      return sum(each, Axes(), false, c.line());
    case LossReduction::mean:
      break;
  }
  return mean(each, Axes(), false, c.line());
}

/// The loss of each target that is a class, or their sum.
Value of_classes(const Call& c, const Value& x, const Value& target) {
  const std::int64_t axis = classes_of(x), classes = x.size(axis);
  const double smoothing = c.number("label_smoothing", 0);
  const NllOptions how{.ignore_index = c.integer("ignore_index", -100),
                       .weight = c.value_or_absent("weight"),
                       .reduction = LossReduction::none,
                       .axis = axis};
  const Value logs = log_softmax(x, axis, c.line());
  Value each = nll_loss(logs, target, how, c.line());
  if (smoothing > 0) {
    Value all = logs;
    if (how.weight.present()) {
      Shape shape(static_cast<std::size_t>(x.rank()), 1);
      shape[static_cast<std::size_t>(axis)] = classes;
      all = all * how.weight.reshape(shape, c.line());
    }
    const Operand ignored(static_cast<double>(how.ignore_index), c.line());
    const Value spread = where(equal({target, c.line()}, ignored), {0, c.line()},
                               {sum(all, axis, false, c.line()), c.line()}, c.line());
    each = each * Operand(1 - smoothing, c.line()) -
           spread * Operand(smoothing / static_cast<double>(classes), c.line());
  }
  return reduction_of(c) == LossReduction::sum ? sum(each, Axes(), false, c.line()) : each;
}

Values cross_entropy_of(const Call& c) {
  const Value x = c.value("self"), target = c.value("target");
  if (is_floating(target.element())) return {of_probabilities(c, x, target)};
  if (reduction_of(c) != LossReduction::mean) return {of_classes(c, x, target)};
  return {cross_entropy_loss(x, target,
                             {.ignore_index = c.integer("ignore_index", -100),
                              .label_smoothing = c.number("label_smoothing", 0),
                              .weight = c.value_or_absent("weight"),
                              .axis = classes_of(x)},
                             c.line())};
}

Values nll_of(const Call& c) {
  const Value x = c.value("self");
  return {nll_loss(x, c.value("target"),
                   {.ignore_index = c.integer("ignore_index", -100),
                    .weight = c.value_or_absent("weight"),
                    .reduction = reduction_of(c),
                    .axis = classes_of(x)},
                   c.line())};
}

}  // namespace

void add_losses(Table& t) {
  t["aten.mse_loss"] = [](const Call& c) {
    return Values{mse_loss(c.value("self"), c.value("target"), reduction_of(c), c.line())};
  };
  t["aten.l1_loss"] = [](const Call& c) {
    return Values{l1_loss(c.value("self"), c.value("target"), reduction_of(c), c.line())};
  };
  t["aten.smooth_l1_loss"] = [](const Call& c) {
    return Values{smooth_l1_loss(c.value("self"), c.value("target"), c.number("beta", 1),
                                 reduction_of(c), c.line())};
  };
  t["aten.huber_loss"] = [](const Call& c) {
    return Values{huber_loss(c.value("self"), c.value("target"),
                             {.delta = c.number("delta", 1), .reduction = reduction_of(c)},
                             c.line())};
  };
  t["aten.binary_cross_entropy"] = [](const Call& c) {
    return Values{binary_cross_entropy(
        c.value("self"), c.value("target"),
        {.weight = c.value_or_absent("weight"), .reduction = reduction_of(c)}, c.line())};
  };
  t["aten.binary_cross_entropy_with_logits"] = [](const Call& c) {
    return Values{bce_with_logits_loss(c.value("self"), c.value("target"),
                                       {.weight = c.value_or_absent("weight"),
                                        .pos_weight = c.value_or_absent("pos_weight"),
                                        .reduction = reduction_of(c)},
                                       c.line())};
  };
  t["aten.kl_div"] = [](const Call& c) {
    return Values{kl_div(c.value("self"), c.value("target"),
                         {.log_target = c.flag("log_target", false), .reduction = reduction_of(c)},
                         c.line())};
  };
  t["aten.cross_entropy_loss"] = cross_entropy_of;
  t["aten.nll_loss"] = nll_of;
  t["aten.nll_loss_nd"] = nll_of;
  t["aten.nll_loss2d"] = nll_of;
}

}  // namespace metronome::pt2
