// Each update is an expression of the parameter, its gradient and its moments, which fuses into one
// pass over them. Scalars are f64[] until they meet a parameter.
#include "ops/optimizers/adaptive.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "graph/emit/scope.h"
#include "ops/expr/functions.h"
#include "ops/expr/reduction.h"
#include "ops/language/init.h"
#include "ops/language/layers.h"
#include "ops/rules/require.h"

namespace metronome {

namespace {

/// A scalar beside a parameter.
Value beside(const Value& scalar, const Value& parameter) {
  return scalar.cast(parameter.element());
}

/// The weight decay is the last scalar, where there is one.
template <class Rule>
Value decay_of(const Rule& rule, const Value& parameter, std::span<const Value> scalars) {
  return rule.weight_decay.is_zero() ? Value() : beside(scalars.back(), parameter);
}

template <class Rule>
Value descended(const Rule& rule, const Value& gradient) {
  return rule.maximize ? -gradient : gradient;
}

/// The gradient that the rule descends, with its weight decay.
template <class Rule>
Value decayed_gradient(const Rule& rule, const Value& parameter, const Value& gradient,
                       std::span<const Value> scalars) {
  const Value decay = decay_of(rule, parameter, scalars), g = descended(rule, gradient);
  return decay.present() ? g + decay * parameter : g;
}

/// The parameter scaled by 1 - lr * weight_decay.
template <class Rule>
Value decayed_parameter(const Rule& rule, const Value& parameter, std::span<const Value> scalars) {
  if (rule.weight_decay.is_zero()) return parameter;
  return parameter * beside(1.0 - scalars[0] * scalars.back(), parameter);
}

/// A parameter and its gradient, of which one has the weight decay.
struct DecayedPair {
  Value parameter, gradient;
};
template <class Rule>
DecayedPair decayed(const Rule& rule, const Value& parameter, const Value& gradient,
                    std::span<const Value> scalars) {
  if (!rule.decoupled_weight_decay) {
    return {parameter, decayed_gradient(rule, parameter, gradient, scalars)};
  }
  return {decayed_parameter(rule, parameter, scalars), descended(rule, gradient)};
}

/// A mean that went `share` of the way to what comes next.
Value moved(const Value& mean, const Value& next, const Operand& share) {
  return mean + share * (next - mean);
}

Value count_of(const Value& update) { return update.cast(f64) + 1.0; }

template <class Rule>
std::string text_of_numbers(const Rule& rule) {
  std::string text = fmt::format(" weight_decay={}", to_string(rule.weight_decay));
  if (rule.clip_norm) text += fmt::format(" clip_norm={}", to_string(*rule.clip_norm));
  return text + (rule.maximize ? " maximize" : "");
}

template <class Rule>
std::optional<Requirement> mistake_of_betas(const Rule& rule) {
  return first_of({numbers_of(rule).mistake(), unless_below_1("beta1", rule.beta1),
                   unless_below_1("beta2", rule.beta2)});
}

std::vector<Moment> adam_moments() { return {{"exp_avg", zeros()}, {"exp_avg_sq", zeros()}}; }

}  // namespace

// ---- RMSprop --------------------------------------------------------------------------------

std::string RmsProp::attributes() const {
  return fmt::format("lr={} alpha={} eps={} momentum={}{}{}", to_string(lr), alpha, eps, momentum,
                     centered ? " centered" : "", text_of_numbers(*this));
}
std::vector<Moment> RmsProp::moments() const {
  std::vector<Moment> all = {{"square_avg", zeros()}};
  if (centered) all.push_back({"grad_avg", zeros()});
  if (momentum != 0) all.push_back({"momentum_buffer", zeros()});
  return all;
}
Values RmsProp::scalars(Value update, double rate, std::span<const Value> states) const {
  return numbers_of(*this).scalars(update, rate, states);
}
Values RmsProp::update(Value parameter, Value gradient, std::span<const Value> moments,
                       std::span<const Value> scalars) const {
  const Value g = decayed_gradient(*this, parameter, gradient, scalars);
  const Value square_avg = moments[0] * alpha + (1 - alpha) * g * g;
  Values kept = {square_avg};
  Value size = square_avg;
  if (centered) {
    kept.push_back(moved(moments[1], g, 1 - alpha));
    size = maximum(square_avg - square(kept.back()), 0.0);  // rounding may leave less
  }
  Value step = g / (sqrt(size) + eps);
  if (momentum != 0) {
    step = moments.back() * momentum + step;
    kept.push_back(step);
  }
  kept.insert(kept.begin(), parameter - beside(scalars[0], parameter) * step);
  return kept;
}
std::optional<Requirement> RmsProp::mistake() const {
  return first_of({numbers_of(*this).mistake(), unless_share("alpha", alpha),
                   unless_at_least_0("eps", eps), unless_at_least_0("momentum", momentum)});
}

// ---- Adagrad --------------------------------------------------------------------------------

std::string Adagrad::attributes() const {
  return fmt::format("lr={} lr_decay={} initial_accumulator_value={} eps={}{}", to_string(lr),
                     lr_decay, initial_accumulator_value, eps, text_of_numbers(*this));
}
std::vector<Moment> Adagrad::moments() const {
  return {{"sum", constant(initial_accumulator_value)}};
}
Values Adagrad::scalars(Value update, double rate, std::span<const Value> states) const {
  Values made = numbers_of(*this).scalars(update, rate, states);
  if (lr_decay != 0) made[0] = made[0] / (1.0 + update.cast(f64) * lr_decay);
  return made;
}
Values Adagrad::update(Value parameter, Value gradient, std::span<const Value> moments,
                       std::span<const Value> scalars) const {
  const Value g = decayed_gradient(*this, parameter, gradient, scalars);
  const Value sum = moments[0] + g * g;
  return {parameter - beside(scalars[0], parameter) * g / (sqrt(sum) + eps), sum};
}
std::optional<Requirement> Adagrad::mistake() const {
  return first_of({numbers_of(*this).mistake(), unless_at_least_0("lr_decay", lr_decay),
                   unless_at_least_0("initial_accumulator_value", initial_accumulator_value),
                   unless_at_least_0("eps", eps)});
}

// ---- Adadelta -------------------------------------------------------------------------------

std::string Adadelta::attributes() const {
  return fmt::format("lr={} rho={} eps={}{}", to_string(lr), rho, eps, text_of_numbers(*this));
}
std::vector<Moment> Adadelta::moments() const {
  return {{"square_avg", zeros()}, {"acc_delta", zeros()}};
}
Values Adadelta::scalars(Value update, double rate, std::span<const Value> states) const {
  return numbers_of(*this).scalars(update, rate, states);
}
Values Adadelta::update(Value parameter, Value gradient, std::span<const Value> moments,
                        std::span<const Value> scalars) const {
  const Value g = decayed_gradient(*this, parameter, gradient, scalars);
  const Value square_avg = moments[0] * rho + (1 - rho) * g * g;
  const Value delta = sqrt(moments[1] + eps) / sqrt(square_avg + eps) * g;
  const Value acc_delta = moments[1] * rho + (1 - rho) * delta * delta;
  return {parameter - beside(scalars[0], parameter) * delta, square_avg, acc_delta};
}
std::optional<Requirement> Adadelta::mistake() const {
  return first_of(
      {numbers_of(*this).mistake(), unless_share("rho", rho), unless_at_least_0("eps", eps)});
}

// ---- Adamax ---------------------------------------------------------------------------------

std::string Adamax::attributes() const {
  return fmt::format("lr={} beta1={} beta2={} eps={}{}", to_string(lr), beta1, beta2, eps,
                     text_of_numbers(*this));
}
std::vector<Moment> Adamax::moments() const { return {{"exp_avg", zeros()}, {"exp_inf", zeros()}}; }
Values Adamax::scalars(Value update, double rate, std::span<const Value> states) const {
  Values made = numbers_of(*this).scalars(update, rate, states);
  made[0] = made[0] / (1.0 - pow(beta1, count_of(update)));
  return made;
}
Values Adamax::update(Value parameter, Value gradient, std::span<const Value> moments,
                      std::span<const Value> scalars) const {
  const Value g = decayed_gradient(*this, parameter, gradient, scalars);
  const Value exp_avg = moved(moments[0], g, 1 - beta1);
  const Value exp_inf = maximum(moments[1] * beta2, abs(g) + eps);
  return {parameter - beside(scalars[0], parameter) * exp_avg / exp_inf, exp_avg, exp_inf};
}
std::optional<Requirement> Adamax::mistake() const {
  return first_of({mistake_of_betas(*this), unless_at_least_0("eps", eps)});
}

// ---- RAdam ----------------------------------------------------------------------------------

std::string RAdam::attributes() const {
  return fmt::format("lr={} beta1={} beta2={} eps={}{}{}", to_string(lr), beta1, beta2, eps,
                     text_of_numbers(*this), decoupled_weight_decay ? " decoupled" : "");
}
std::vector<Moment> RAdam::moments() const { return adam_moments(); }
Values RAdam::scalars(Value update, double rate, std::span<const Value> states) const {
  const Value t = count_of(update), power = pow(beta2, t);
  const double most = 2 / (1 - beta2) - 1;
  const Value length = most - 2.0 * t * power / (1.0 - power);
  // The mean square of too few gradients counts for nothing.
  const Value enough = length > 5.0, safe = where(enough, length, 6.0);
  const Value rectified =
      sqrt((safe - 4.0) * (safe - 2.0) * most / ((most - 4) * (most - 2) * safe)) *
      sqrt(1.0 - power);
  return numbers_of(*this).scalars(update, rate, states,
                                   {1.0 - pow(beta1, t), where(enough, rectified, 0.0)});
}
Values RAdam::update(Value parameter, Value gradient, std::span<const Value> moments,
                     std::span<const Value> scalars) const {
  const auto [p, g] = decayed(*this, parameter, gradient, scalars);
  const Value exp_avg = moved(moments[0], g, 1 - beta1);
  const Value exp_avg_sq = moments[1] * beta2 + (1 - beta2) * g * g;
  const Value rectified = beside(scalars[2], parameter);
  const Value factor = where(rectified > 0.0, rectified / (sqrt(exp_avg_sq) + eps), 1.0);
  return {p - beside(scalars[0] / scalars[1], parameter) * exp_avg * factor, exp_avg, exp_avg_sq};
}
std::optional<Requirement> RAdam::mistake() const {
  std::optional<Requirement> short_memory;
  if (beta2 <= 0.6) {
    short_memory = Requirement{fmt::format("a beta2 above 0.6, but {}", beta2)};
  }
  return first_of({mistake_of_betas(*this), unless_at_least_0("eps", eps), short_memory});
}

// ---- NAdam ----------------------------------------------------------------------------------

namespace {

/// The momentum of update t.
Value momentum_at(const NAdam& rule, const Value& t) {
  return rule.beta1 * (1.0 - 0.5 * pow(0.96, t * rule.momentum_decay));
}

}  // namespace

std::vector<Moment> NAdam::states() const {
  std::vector<Moment> all = numbers_of(*this).states();
  all.insert(all.begin(), {"mu_product", ones()});
  return all;
}
Values NAdam::next_states(Value update, Value loss, std::span<const Value> states) const {
  Values next = numbers_of(*this).next_states(update, loss, states.subspan(1));
  next.insert(next.begin(), states[0] * momentum_at(*this, count_of(update)));
  return next;
}
Values NAdam::clip(const Values& gradients, std::span<const Value> states) const {
  return numbers_of(*this).clip(gradients, states.subspan(1));
}
Value NAdam::learning_rate(Value update, std::span<const Value> states) const {
  return numbers_of(*this).learning_rate(update, states.subspan(1));
}
std::string NAdam::attributes() const {
  return fmt::format("lr={} beta1={} beta2={} eps={} momentum_decay={}{}{}", to_string(lr), beta1,
                     beta2, eps, momentum_decay, text_of_numbers(*this),
                     decoupled_weight_decay ? " decoupled" : "");
}
std::vector<Moment> NAdam::moments() const { return adam_moments(); }
Values NAdam::scalars(Value update, double rate, std::span<const Value> states) const {
  const Value t = count_of(update), now = momentum_at(*this, t), next = momentum_at(*this, t + 1.0);
  const Value product = states[0] * now;
  return numbers_of(*this).scalars(
      update, rate, states.subspan(1),
      {(1.0 - now) / (1.0 - product), next / (1.0 - product * next), 1.0 - pow(beta2, t)});
}
Values NAdam::update(Value parameter, Value gradient, std::span<const Value> moments,
                     std::span<const Value> scalars) const {
  const auto [p, g] = decayed(*this, parameter, gradient, scalars);
  const Value exp_avg = moved(moments[0], g, 1 - beta1);
  const Value exp_avg_sq = moments[1] * beta2 + (1 - beta2) * g * g;
  const Value size = sqrt(exp_avg_sq / beside(scalars[3], parameter)) + eps;
  const Value step = beside(scalars[0] * scalars[1], parameter) * g +
                     beside(scalars[0] * scalars[2], parameter) * exp_avg;
  return {p - step / size, exp_avg, exp_avg_sq};
}
std::optional<Requirement> NAdam::mistake() const {
  return first_of({mistake_of_betas(*this), unless_at_least_0("eps", eps),
                   unless_at_least_0("momentum_decay", momentum_decay)});
}

// ---- Lion -----------------------------------------------------------------------------------

std::string Lion::attributes() const {
  return fmt::format("lr={} beta1={} beta2={}{}", to_string(lr), beta1, beta2,
                     text_of_numbers(*this));
}
std::vector<Moment> Lion::moments() const { return {{"exp_avg", zeros()}}; }
Values Lion::scalars(Value update, double rate, std::span<const Value> states) const {
  return numbers_of(*this).scalars(update, rate, states);
}
Values Lion::update(Value parameter, Value gradient, std::span<const Value> moments,
                    std::span<const Value> scalars) const {
  const Value g = descended(*this, gradient);
  const Value direction = moments[0] * beta1 + (1 - beta1) * g;
  const Value p = decayed_parameter(*this, parameter, scalars);
  return {p - beside(scalars[0], parameter) * sign(direction),
          moments[0] * beta2 + (1 - beta2) * g};
}
std::optional<Requirement> Lion::mistake() const { return mistake_of_betas(*this); }

// ---- LAMB -----------------------------------------------------------------------------------

std::string Lamb::attributes() const {
  return fmt::format("lr={} beta1={} beta2={} eps={}{}", to_string(lr), beta1, beta2, eps,
                     text_of_numbers(*this));
}
std::vector<Moment> Lamb::moments() const { return adam_moments(); }
Values Lamb::scalars(Value update, double rate, std::span<const Value> states) const {
  const Value t = count_of(update);
  return numbers_of(*this).scalars(update, rate, states,
                                   {1.0 - pow(beta1, t), 1.0 - pow(beta2, t)});
}
Values Lamb::update(Value parameter, Value gradient, std::span<const Value> moments,
                    std::span<const Value> scalars) const {
  const Value g = descended(*this, gradient), decay = decay_of(*this, parameter, scalars);
  const Value exp_avg = moved(moments[0], g, 1 - beta1);
  const Value exp_avg_sq = moments[1] * beta2 + (1 - beta2) * g * g;
  Value direction = exp_avg / beside(scalars[1], parameter) /
                    (sqrt(exp_avg_sq / beside(scalars[2], parameter)) + eps);
  if (decay.present()) direction = direction + decay * parameter;
  const Reduction norm{ReduceKind::norm};
  const Value of_parameter = norm(parameter), of_direction = norm(direction);
  const Value trust =
      where(logical_and(of_parameter > 0.0, of_direction > 0.0), of_parameter / of_direction, 1.0);
  return {parameter - beside(scalars[0], parameter) * trust * direction, exp_avg, exp_avg_sq};
}
std::optional<Requirement> Lamb::mistake() const {
  return first_of({mistake_of_betas(*this), unless_at_least_0("eps", eps)});
}

// ---- Muon -----------------------------------------------------------------------------------

namespace {

/// The nearest matrix with orthogonal rows or columns, but for singular values from about 0.7 to
/// 1.2: the polynomial's slope at 0 is as large as it can be.
Value orthogonal_direction(Value x, int steps) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  const bool tall = x.size(0) > x.size(1);
  if (tall) x = x.transpose(0, 1);
  x = x / (Reduction{ReduceKind::norm}(x) + 1e-7);
  for (int i = 0; i < steps; ++i) {
    const Value a = matmul(x, x.transpose(0, 1));
    const Value b = kB * a + kC * matmul(a, a);
    x = kA * x + matmul(b, x);
  }
  return tall ? x.transpose(0, 1) : x;
}

}  // namespace

std::string Muon::attributes() const {
  return fmt::format("lr={} momentum={}{} steps={}{}", to_string(lr), momentum,
                     nesterov ? " nesterov" : "", steps, text_of_numbers(*this));
}
std::vector<Moment> Muon::moments() const { return {{"momentum_buffer", zeros()}}; }
Values Muon::scalars(Value update, double rate, std::span<const Value> states) const {
  return numbers_of(*this).scalars(update, rate, states);
}
Values Muon::update(Value parameter, Value gradient, std::span<const Value> moments,
                    std::span<const Value> scalars) const {
  if (parameter.rank() < 2) {
    const Value wrong =
        metronome::mistake(parameter.emitter(), Line{}, "muon cannot orthogonalize", {{parameter}},
                           {fmt::format("matrices [rows, columns], or kernels of "
                                        "convolutions, but {}",
                                        to_string(parameter.type())),
                            "train other parameters by an objective of their own over the "
                            "same loss"});
    return {wrong, wrong};
  }
  if (parameter.type().numel() == 0) return {parameter, moments[0]};
  const Value g = descended(*this, gradient);
  const Value buffer = moved(moments[0], g, 1 - momentum);
  const Value direction = nesterov ? moved(g, buffer, momentum) : buffer;
  const std::int64_t rows = parameter.size(0), columns = parameter.type().numel() / rows;
  const Value made = orthogonal_direction(direction.reshape({rows, columns}), steps);
  const double scale =
      std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(columns)));
  const Value p = decayed_parameter(*this, parameter, scalars);
  return {p - beside(scalars[0] * scale, parameter) * made.reshape(parameter.shape()), buffer};
}
std::optional<Requirement> Muon::mistake() const {
  std::optional<Requirement> none;
  if (steps < 1) none = Requirement{fmt::format("1 step or more, but {}", steps)};
  return first_of({numbers_of(*this).mistake(), unless_below_1("momentum", momentum), none});
}

// ---- AdamW without a schedule ---------------------------------------------------------------

namespace {

/// The states of the rule's own behind an update, and the share of its step in the average.
struct ScheduleFreeWeight {
  Value sum, lr_max, share;
};

ScheduleFreeWeight weight_of(const ScheduleFreeAdamW& rule, const Value& update,
                             std::span<const Value> states) {
  const Value lr_max = maximum(states[1], rule.learning_rate(update, states));
  const Value weight = square(lr_max), sum = states[0] + weight;
  // Rates of 0 so far weigh nothing.
  const Value some = sum > 0.0;
  return {sum, lr_max, where(some, weight / where(some, sum, 1.0), 0.0)};
}

constexpr std::size_t kOwnStates = 2;

}  // namespace

std::vector<Moment> ScheduleFreeAdamW::states() const {
  std::vector<Moment> all = {{"weight_sum", zeros()}, {"lr_max", zeros()}};
  for (Moment& state : numbers_of(*this).states()) all.push_back(std::move(state));
  return all;
}
Values ScheduleFreeAdamW::next_states(Value update, Value loss,
                                      std::span<const Value> states) const {
  const ScheduleFreeWeight weight = weight_of(*this, update, states);
  Values next = {weight.sum, weight.lr_max};
  for (Value& of : numbers_of(*this).next_states(update, loss, states.subspan(kOwnStates))) {
    next.push_back(std::move(of));
  }
  return next;
}
Values ScheduleFreeAdamW::clip(const Values& gradients, std::span<const Value> states) const {
  return numbers_of(*this).clip(gradients, states.subspan(kOwnStates));
}
Value ScheduleFreeAdamW::learning_rate(Value update, std::span<const Value> states) const {
  return numbers_of(*this).learning_rate(update, states.subspan(kOwnStates));
}
std::string ScheduleFreeAdamW::attributes() const {
  return fmt::format("lr={} beta1={} beta2={} eps={}{}", to_string(lr), beta1, beta2, eps,
                     text_of_numbers(*this));
}
std::vector<Moment> ScheduleFreeAdamW::moments() const {
  return {{"exp_avg_sq", zeros()}, {"z", zeros()}, {.name = "schedule_free", .is_average = true}};
}
Values ScheduleFreeAdamW::scalars(Value update, double rate, std::span<const Value> states) const {
  return numbers_of(*this).scalars(
      update, rate, states.subspan(kOwnStates),
      {weight_of(*this, update, states).share, 1.0 - pow(beta2, count_of(update))});
}
Values ScheduleFreeAdamW::update(Value parameter, Value gradient, std::span<const Value> moments,
                                 std::span<const Value> scalars) const {
  const Value g = descended(*this, gradient), decay = decay_of(*this, parameter, scalars);
  const Value exp_avg_sq = moments[0] * beta2 + (1 - beta2) * g * g;
  Value direction = g / (sqrt(exp_avg_sq / beside(scalars[2], parameter)) + eps);
  if (decay.present()) direction = direction + decay * parameter;
  // The parameter is what the last update made of both, to the bit. An element that is not was set
  // or loaded since, or never updated: both begin there as it is.
  const Value is_own = parameter == moved(moments[1], moments[2], beta1);
  const auto begun = [&](const Value& moment) { return where(is_own, moment, parameter); };
  const Value z = begun(moments[1]) - beside(scalars[0], parameter) * direction;
  const Value average = moved(begun(moments[2]), z, beside(scalars[1], parameter));
  return {moved(z, average, beta1), exp_avg_sq, z, average};
}
std::optional<Requirement> ScheduleFreeAdamW::mistake() const {
  std::optional<Requirement> forgets;
  if (beta1 <= 0) forgets = Requirement{fmt::format("a beta1 above 0, but {}", beta1)};
  return first_of({mistake_of_betas(*this), unless_at_least_0("eps", eps), forgets});
}

}  // namespace metronome
