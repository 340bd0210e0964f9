#include "ops/losses/distance_losses.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <string_view>

#include "graph/ir/error.h"
#include "ops/expr/functions.h"
#include "ops/language/composed.h"
#include "ops/language/derived.h"
#include "ops/losses/reduced.h"
#include "ops/mean_losses/mean_losses.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

/// One type for all, and elements where their mean is asked for.
void require_numbers(std::initializer_list<Value> operands, LossReduction reduction) {
  require_alike(operands);
  require_some(*operands.begin(), reduction);
}

/// Rows [..., width] of one type, with a width.
void require_wide(std::initializer_list<Value> operands, LossReduction reduction) {
  require_alike(operands);
  const Value& first = *operands.begin();
  if (first.rank() == 0) throw Requirement{"rows [..., width], but a scalar"};
  require_some(first, reduction);
}

Value loss_of(Value prediction, Value target, std::string_view name, LossReduction reduction,
              Line line, const std::function<Value()>& each) {
  return compose(
      name, {prediction, target}, line, [&] { require_numbers({prediction, target}, reduction); },
      [&] { return reduce_loss(each(), reduction); });
}

}  // namespace

Value mse_loss(Value prediction, Value target, LossReduction reduction, Line line) {
  if (reduction == LossReduction::mean) return mse_loss(prediction, target, line);
  return loss_of(prediction, target, "mse_loss", reduction, line,
                 [&] { return square(prediction - target); });
}

Value l1_loss(Value prediction, Value target, LossReduction reduction, Line line) {
  if (reduction == LossReduction::mean) return l1_loss(prediction, target, line);
  return loss_of(prediction, target, "l1_loss", reduction, line,
                 [&] { return abs(prediction - target); });
}

Value smooth_l1_loss(Value prediction, Value target, double beta, LossReduction reduction,
                     Line line) {
  if (reduction == LossReduction::mean) return smooth_l1_loss(prediction, target, beta, line);
  if (beta == 0) return l1_loss(prediction, target, reduction, line);
  const auto check = [&] {
    require_alike({prediction, target});
    SmoothL1Loss{beta}.infer(std::array{prediction.type(), target.type()});
  };
  return compose("smooth_l1_loss", {prediction, target}, line, check, [&] {
    const Value distance = abs(prediction - target);
    return reduce_loss(
        where(distance < beta, square(distance) * (0.5 / beta), distance - 0.5 * beta), reduction);
  });
}

Value huber_loss(Value prediction, Value target, HuberOptions options, Line line) {
  const auto check = [&] {
    require(unless_above_0("delta", options.delta));
    require_numbers({prediction, target}, options.reduction);
  };
  return compose("huber_loss", {prediction, target}, line, check, [&] {
    const double delta = options.delta;
    const Value distance = abs(prediction - target);
    return reduce_loss(
        where(distance < delta, square(distance) * 0.5, (distance - 0.5 * delta) * delta),
        options.reduction);
  });
}

Value triplet_margin_loss(Value anchor, Value positive, Value negative,
                          TripletMarginOptions options, Line line) {
  const auto check = [&] {
    require(unless_above_0("margin", options.margin));
    require(unless_at_least_0("eps", options.eps));
    require_order(options.p);
    require_wide({anchor, positive, negative}, options.reduction);
  };
  return compose("triplet_margin_loss", {anchor, positive, negative}, line, check, [&] {
    const auto distance = [&](const Value& a, const Value& b) {
      return norm(a - b + options.eps, options.p, -1);
    };
    Value far = distance(anchor, negative);
    if (options.swap) far = minimum(far, distance(positive, negative));
    return reduce_loss(above_0(distance(anchor, positive) - far + options.margin),
                       options.reduction);
  });
}

Value cosine_embedding_loss(Value a, Value b, Value y, MarginOptions options, Line line) {
  const auto check = [&] {
    require(unless_finite("margin", options.margin));
    require_wide({a, b}, options.reduction);
    const Shape rows(a.shape().begin(), a.shape().end() - 1);
    if (y.shape() == rows) return;
    throw Requirement{
        fmt::format("one y for each row, {}, but {}", to_string(rows), to_string(y.shape()))};
  };
  return compose("cosine_embedding_loss", {a, b, y}, line, check, [&] {
    constexpr double kLeast = 1e-12;  // PyTorch's
    // x / sqrt(|x|^2 + kLeast), without the square of a large |x|.
    const auto direction = [](const Value& x) {
      const Value size = norm(x, 2, -1, true), least = maximum(size, std::sqrt(kLeast));
      const Value apart = size / least, floor = std::sqrt(kLeast) / least;
      return x / (least * sqrt(square(apart) + square(floor)));
    };
    const Value cosine = sum(direction(a) * direction(b), -1);
    const Value alike = where(equal(y, 1.0), 1.0 - cosine, 0.0);
    const Value apart = where(equal(y, -1.0), above_0(cosine - options.margin), 0.0);
    return reduce_loss(alike + apart, options.reduction);
  });
}

Value margin_ranking_loss(Value a, Value b, Value y, MarginOptions options, Line line) {
  const auto check = [&] {
    require(unless_finite("margin", options.margin));
    require_numbers({a, b, y}, options.reduction);
  };
  return compose("margin_ranking_loss", {a, b, y}, line, check, [&] {
    return reduce_loss(above_0(-y * (a - b) + options.margin), options.reduction);
  });
}

Value hinge_embedding_loss(Value x, Value y, MarginOptions options, Line line) {
  const auto check = [&] {
    require(unless_finite("margin", options.margin));
    require_numbers({x, y}, options.reduction);
  };
  return compose("hinge_embedding_loss", {x, y}, line, check, [&] {
    const Value apart = where(equal(y, 1.0), 0.0, above_0(options.margin - x));
    return reduce_loss(apart + where(equal(y, -1.0), 0.0, x), options.reduction);
  });
}

Value poisson_nll_loss(Value prediction, Value target, PoissonNllOptions options, Line line) {
  const auto check = [&] {
    require(unless_above_0("eps", options.eps));
    require_numbers({prediction, target}, options.reduction);
  };
  return compose("poisson_nll_loss", {prediction, target}, line, check, [&] {
    // A target of 0 counts nothing, also where the logarithm is infinite.
    const Value none = equal(target, 0.0);
    const Value rate = options.log_input ? exp(prediction) : prediction;
    const Value logarithm = options.log_input ? prediction : log(prediction + options.eps);
    Value each = rate - target * where(none, 0.0, logarithm);
    if (options.full) {
      const Value few = target <= 1.0, many = where(few, 2.0, target);
      const Value stirling = many * log(many) - many + log(many * (2 * std::numbers::pi)) * 0.5;
      each = each + where(few, 0.0, stirling);
    }
    return reduce_loss(each, options.reduction);
  });
}

Value gaussian_nll_loss(Value prediction, Value target, Value variance, GaussianNllOptions options,
                        Line line) {
  const auto check = [&] {
    require(unless_above_0("eps", options.eps));
    require_numbers({prediction, target}, options.reduction);
    require_broadcasts("variance", variance, prediction);
  };
  return compose("gaussian_nll_loss", {prediction, target, variance}, line, check, [&] {
    const Value spread = at_least(variance, options.eps);
    Value each = (log(spread) + square(prediction - target) / spread) * 0.5;
    if (options.full) each = each + 0.5 * std::log(2 * std::numbers::pi);
    return reduce_loss(each, options.reduction);
  });
}

}  // namespace metronome
