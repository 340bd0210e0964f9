// Optimizer steps through libtorch's fused kernels, where it has them, else in ATen's calls, as
// torch.optim or their authors write them: the eager baseline.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <span>
#include <type_traits>
#include <vector>

#include "graph/ir/error.h"
#include "ops/optimizers/adaptive.h"
#include "ops/optimizers/common.h"
#include "ops/optimizers/optimizers.h"
#include "ops/reference/optimizers.h"

namespace metronome {

namespace {

at::Tensor norm_of(const Tensors& gradients) {
  Tensors norms;
  for (const at::Tensor& gradient : gradients) norms.push_back(at::linalg_vector_norm(gradient));
  return at::linalg_vector_norm(at::stack(norms));
}

// torch.nn.utils.clip_grad_norm_, in place.
void clip_gradients(Tensors& gradients, double max_norm) {
  const at::Tensor total = norm_of(gradients);
  const at::Tensor factor = total.add(1e-6).reciprocal().mul(max_norm).clamp_max(1.0);
  for (at::Tensor& gradient : gradients) gradient.mul_(factor);
}

/// The numbers of a rule at an update.
struct RuleNumbers {
  double lr, weight_decay;
  std::optional<double> clip_norm;
};

/// The number of states that a rule has of its own, in front of those of its numbers.
template <class T>
std::size_t own_states(const T& rule) {
  return rule.states().size() - numbers_of(rule).states().size();
}

template <class T>
OptimizerNumbers::States<double> split_states(const T& rule, const UpdateState& state) {
  const std::span<const double> all(state.states);
  return numbers_of(rule).split(all.subspan(own_states(rule)));
}

template <class T>
RuleNumbers numbers_at(const T& rule, const UpdateState& state) {
  const auto split = split_states(rule, state);
  RuleNumbers numbers{
      rule.lr.at(state.update, split.lr), rule.weight_decay.at(split.weight_decay), {}};
  if (rule.clip_norm) numbers.clip_norm = rule.clip_norm->at(split.clip_norm);
  return numbers;
}

template <class T>
void adam_step(const T& rule, const Tensors& parameters, const Tensors& gradients,
               const std::vector<Tensors>& moments, const UpdateState& state,
               const Scales& scales) {
  const RuleNumbers numbers = numbers_at(rule, state);
  // One counter serves all parameters: the kernel only reads it.
  const at::Tensor count =
      at::full({}, state.update + 1, at::TensorOptions(at::kFloat).device(parameters[0].device()));
  const Tensors counts(parameters.size(), count);
  const auto run = [&](const auto& fused) {
    fused(parameters, gradients, moments[0], moments[1], rule.amsgrad ? moments[2] : Tensors{},
          counts, scales.rate * numbers.lr, rule.beta1, rule.beta2,
          scales.decay * numbers.weight_decay, rule.eps, rule.amsgrad, rule.maximize, {}, {});
  };
  if constexpr (std::is_same_v<T, AdamW>) {
    run(at::_ops::_fused_adamw_::call);
  } else {
    run(at::_ops::_fused_adam_::call);
  }
}

void sgd_step(const Sgd& rule, const Tensors& parameters, const Tensors& gradients,
              const std::vector<Tensors>& moments, const UpdateState& state, const Scales& scales) {
  const RuleNumbers numbers = numbers_at(rule, state);
  at::_fused_sgd_(parameters, gradients, moments.empty() ? Tensors{} : moments[0],
                  scales.decay * numbers.weight_decay, rule.momentum, scales.rate * numbers.lr,
                  rule.dampening, rule.nesterov, rule.maximize,
                  /*is_first_step=*/state.update == 0);
}

/// A parameter, which changes in place as its moments do, and the numbers of the step.
struct ParameterUpdate {
  at::Tensor parameter, gradient;
  std::vector<at::Tensor> moments;
  double lr, weight_decay;
  double all_lr;                   ///< of parameters whose rate is not scaled
  double t;                        ///< counts updates from 1
  std::span<const double> states;  ///< those that the optimizer has of its own
};

/// The gradient that is descended.
template <class Rule>
at::Tensor descended(const Rule& rule, const ParameterUpdate& u) {
  return rule.maximize ? u.gradient.neg() : u.gradient;
}

/// Likewise, with the weight decay.
template <class Rule>
at::Tensor decayed(const Rule& rule, const ParameterUpdate& u) {
  const at::Tensor g = descended(rule, u);
  return u.weight_decay == 0 ? g : g.add(u.parameter, u.weight_decay);
}

void shrink(const ParameterUpdate& u) {
  if (u.weight_decay != 0) u.parameter.mul_(1 - u.lr * u.weight_decay);
}

void add_mean(const at::Tensor& mean, const at::Tensor& g, double beta) { mean.lerp_(g, 1 - beta); }
void add_mean_square(const at::Tensor& mean, const at::Tensor& g, double beta) {
  mean.mul_(beta).addcmul_(g, g, 1 - beta);
}

double momentum_at(const NAdam& rule, double t) {
  return rule.beta1 * (1 - 0.5 * std::pow(0.96, t * rule.momentum_decay));
}

void update_parameter(const RmsProp& rule, const ParameterUpdate& u) {
  const at::Tensor g = decayed(rule, u);
  add_mean_square(u.moments[0], g, rule.alpha);
  at::Tensor size = u.moments[0];
  if (rule.centered) {
    add_mean(u.moments[1], g, rule.alpha);
    size = size.addcmul(u.moments[1], u.moments[1], -1).clamp_min(0);
  }
  size = size.sqrt().add(rule.eps);
  if (rule.momentum == 0) {
    u.parameter.addcdiv_(g, size, -u.lr);
    return;
  }
  u.moments.back().mul_(rule.momentum).addcdiv_(g, size);
  u.parameter.add_(u.moments.back(), -u.lr);
}

void update_parameter(const Adagrad& rule, const ParameterUpdate& u) {
  const at::Tensor g = decayed(rule, u);
  u.moments[0].addcmul_(g, g, 1);
  u.parameter.addcdiv_(g, u.moments[0].sqrt().add(rule.eps),
                       -u.lr / (1 + (u.t - 1) * rule.lr_decay));
}

void update_parameter(const Adadelta& rule, const ParameterUpdate& u) {
  const at::Tensor g = decayed(rule, u);
  add_mean_square(u.moments[0], g, rule.rho);
  const at::Tensor delta =
      u.moments[1].add(rule.eps).sqrt().div(u.moments[0].add(rule.eps).sqrt()).mul(g);
  add_mean_square(u.moments[1], delta, rule.rho);
  u.parameter.add_(delta, -u.lr);
}

void update_parameter(const Adamax& rule, const ParameterUpdate& u) {
  const at::Tensor g = decayed(rule, u);
  add_mean(u.moments[0], g, rule.beta1);
  u.moments[1].copy_(at::maximum(u.moments[1].mul(rule.beta2), g.abs().add(rule.eps)));
  u.parameter.addcdiv_(u.moments[0], u.moments[1], -u.lr / (1 - std::pow(rule.beta1, u.t)));
}

void update_parameter(const RAdam& rule, const ParameterUpdate& u) {
  const at::Tensor g = rule.decoupled_weight_decay ? descended(rule, u) : decayed(rule, u);
  if (rule.decoupled_weight_decay) shrink(u);
  add_mean(u.moments[0], g, rule.beta1);
  add_mean_square(u.moments[1], g, rule.beta2);
  const double power = std::pow(rule.beta2, u.t), most = 2 / (1 - rule.beta2) - 1;
  const double length = most - 2 * u.t * power / (1 - power);
  const at::Tensor mean = u.moments[0].div(1 - std::pow(rule.beta1, u.t));
  if (length <= 5) {
    u.parameter.add_(mean, -u.lr);
    return;
  }
  const double rectified =
      std::sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length));
  u.parameter.addcdiv_(mean, u.moments[1].sqrt().add(rule.eps),
                       -u.lr * rectified * std::sqrt(1 - power));
}

void update_parameter(const NAdam& rule, const ParameterUpdate& u) {
  const at::Tensor g = rule.decoupled_weight_decay ? descended(rule, u) : decayed(rule, u);
  if (rule.decoupled_weight_decay) shrink(u);
  const double now = momentum_at(rule, u.t), next = momentum_at(rule, u.t + 1);
  const double product = u.states[0] * now;
  add_mean(u.moments[0], g, rule.beta1);
  add_mean_square(u.moments[1], g, rule.beta2);
  const at::Tensor size = u.moments[1].div(1 - std::pow(rule.beta2, u.t)).sqrt().add(rule.eps);
  u.parameter.addcdiv_(g, size, -u.lr * (1 - now) / (1 - product));
  u.parameter.addcdiv_(u.moments[0], size, -u.lr * next / (1 - product * next));
}

std::vector<double> own_states_behind(const NAdam& rule, std::span<const double> states, double t,
                                      double /*lr*/) {
  return {states[0] * momentum_at(rule, t)};
}

void update_parameter(const Lion& rule, const ParameterUpdate& u) {
  const at::Tensor g = descended(rule, u);
  shrink(u);
  u.parameter.add_(u.moments[0].mul(rule.beta1).add(g, 1 - rule.beta1).sign(), -u.lr);
  u.moments[0].mul_(rule.beta2).add_(g, 1 - rule.beta2);
}

void update_parameter(const Lamb& rule, const ParameterUpdate& u) {
  const at::Tensor g = descended(rule, u);
  add_mean(u.moments[0], g, rule.beta1);
  add_mean_square(u.moments[1], g, rule.beta2);
  at::Tensor direction = u.moments[0].div(1 - std::pow(rule.beta1, u.t));
  direction = direction.div(u.moments[1].div(1 - std::pow(rule.beta2, u.t)).sqrt().add(rule.eps));
  if (u.weight_decay != 0) direction = direction.add(u.parameter, u.weight_decay);
  const double of_parameter = u.parameter.norm().item<double>();
  const double of_direction = direction.norm().item<double>();
  const double trust = of_parameter > 0 && of_direction > 0 ? of_parameter / of_direction : 1;
  u.parameter.add_(direction, -u.lr * trust);
}

void update_parameter(const Muon& rule, const ParameterUpdate& u) {
  const at::Tensor g = descended(rule, u);
  add_mean(u.moments[0], g, rule.momentum);
  at::Tensor x = rule.nesterov ? g.lerp(u.moments[0], rule.momentum) : u.moments[0];
  const std::int64_t rows = x.size(0), columns = x.numel() / std::max<std::int64_t>(rows, 1);
  if (x.numel() == 0) return;
  x = x.reshape({rows, columns});
  if (rows > columns) x = x.t();
  x = x.div(x.norm().add(1e-7));
  for (int i = 0; i < rule.steps; ++i) {
    const at::Tensor a = x.mm(x.t());
    x = x.mul(3.4445).add(a.mul(-4.7750).add(a.mm(a), 2.0315).mm(x));
  }
  if (rows > columns) x = x.t();
  shrink(u);
  const double scale =
      std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(columns)));
  u.parameter.add_(x.reshape(u.parameter.sizes()), -u.lr * scale);
}

std::vector<double> own_states_behind(const ScheduleFreeAdamW&, std::span<const double> states,
                                      double /*t*/, double lr) {
  const double lr_max = std::max(states[1], lr);
  return {states[0] + lr_max * lr_max, lr_max};
}

void update_parameter(const ScheduleFreeAdamW& rule, const ParameterUpdate& u) {
  const at::Tensor &z = u.moments[1], &average = u.moments[2];
  // As the kernels round it, so that a checkpoint of theirs is its own.
  const auto between = [&] { return average.sub(z).mul(rule.beta1).add(z); };
  const at::Tensor is_own = u.parameter.eq(between());
  z.copy_(at::where(is_own, z, u.parameter));
  average.copy_(at::where(is_own, average, u.parameter));
  const at::Tensor g = descended(rule, u);
  add_mean_square(u.moments[0], g, rule.beta2);
  at::Tensor direction =
      g.div(u.moments[0].div(1 - std::pow(rule.beta2, u.t)).sqrt().add(rule.eps));
  if (u.weight_decay != 0) direction = direction.add(u.parameter, u.weight_decay);
  z.add_(direction, -u.lr);
  const std::vector<double> next = own_states_behind(rule, u.states, u.t, u.all_lr);
  average.lerp_(z, next[0] > 0 ? next[1] * next[1] / next[0] : 0);
  u.parameter.copy_(between());
}

template <class Rule>
std::vector<double> own_states_behind(const Rule&, std::span<const double>, double, double) {
  return {};
}

/// One parameter after the other.
template <class T>
void step_by_parameter(const T& rule, const Tensors& parameters, const Tensors& gradients,
                       const std::vector<Tensors>& moments, const UpdateState& state,
                       const Scales& scales) {
  const RuleNumbers numbers = numbers_at(rule, state);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    ParameterUpdate u{parameters[i],
                      gradients[i],
                      {},
                      scales.rate * numbers.lr,
                      scales.decay * numbers.weight_decay,
                      numbers.lr,
                      static_cast<double>(state.update) + 1,
                      std::span(state.states).first(own_states(rule))};
    for (const Tensors& moment : moments) u.moments.push_back(moment[i]);
    update_parameter(rule, u);
  }
}

/// Those of `all` whose parameter has these scales.
Tensors select_by_scales(const Tensors& all, const std::vector<Scales>& scales,
                         const Scales& these) {
  Tensors tensors;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (scales[i] == these) tensors.push_back(all[i]);
  }
  return tensors;
}

/// Calls `run` with the optimizer's rule and the step that libtorch has for it; false where it has
/// none.
template <class Run>
bool with_step(const OptimizerRule& optimizer, const Run& run) {
  if (optimizer.lazy()) return false;
  if (const auto* rule = optimizer.as<Adam>()) return run(*rule, adam_step<Adam>), true;
  if (const auto* rule = optimizer.as<AdamW>()) return run(*rule, adam_step<AdamW>), true;
  if (const auto* rule = optimizer.as<Sgd>()) return run(*rule, sgd_step), true;
  const auto tried = [&]<class T>(const T*) {
    const T* rule = optimizer.as<T>();
    if (rule != nullptr) run(*rule, step_by_parameter<T>);
    return rule != nullptr;
  };
  const auto one_of = [&]<class... T>(const T*... none) { return (tried(none) || ...); };
  return one_of.template
  operator()<RmsProp, Adagrad, Adadelta, Adamax, RAdam, NAdam, Lion, Lamb, Muon, ScheduleFreeAdamW>(
      nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
}

}  // namespace

bool has_reference(const OptimizerRule& optimizer) {
  return with_step(optimizer, [](const auto&, const auto&) {});
}

double reference_number(const OptimizerRule& optimizer, UpdateNumber number,
                        const Tensors& gradients, const UpdateState& state) {
  double result = 0;
  const auto tell = [&](const auto& rule, const auto&) {
    if (number == UpdateNumber::learning_rate) {
      result = numbers_at(rule, state).lr;
      return;
    }
    Tensors clipped = gradients;
    const auto most = numbers_at(rule, state).clip_norm;
    if (number == UpdateNumber::clipped_gradient_norm && most) {
      for (at::Tensor& gradient : clipped) gradient = gradient.clone();
      clip_gradients(clipped, *most);
    }
    result = norm_of(clipped).template item<double>();
  };
  if (with_step(optimizer, tell)) return result;
  throw InternalError(fmt::format("the optimizer {} has no libtorch form", optimizer.name()));
}

std::vector<double> reference_states(const OptimizerRule& optimizer, const UpdateState& state,
                                     double loss) {
  std::vector<double> next = state.states;
  const auto advance = [&](const auto& rule, const auto&) {
    const std::vector<double> own = own_states_behind(
        rule, state.states, static_cast<double>(state.update) + 1, numbers_at(rule, state).lr);
    const std::vector<double> of_rate =
        rule.lr.next_states(state.update, loss, split_states(rule, state).lr);
    std::ranges::copy(of_rate, std::ranges::copy(own, next.begin()).out);
  };
  if (with_step(optimizer, advance)) return next;
  throw InternalError(fmt::format("the optimizer {} has no libtorch form", optimizer.name()));
}

void reference_step(const OptimizerRule& optimizer, const Tensors& parameters, Tensors gradients,
                    const std::vector<Tensors>& moments, const UpdateState& state,
                    const std::vector<Scales>& scales) {
  if (parameters.empty()) return;
  const at::NoGradGuard no_gradients;
  const auto run = [&](const auto& rule, const auto& step) {
    if (const auto most = numbers_at(rule, state).clip_norm) clip_gradients(gradients, *most);
    if (scales.empty()) return step(rule, parameters, gradients, moments, state, Scales{});
    for (const Scales& these : std::set<Scales>(scales.begin(), scales.end())) {
      std::vector<Tensors> selected;
      for (const Tensors& moment : moments) {
        selected.push_back(select_by_scales(moment, scales, these));
      }
      step(rule, select_by_scales(parameters, scales, these),
           select_by_scales(gradients, scales, these), selected, state, these);
    }
  };
  if (with_step(optimizer, run)) return;
  throw InternalError(fmt::format("the optimizer {} has no libtorch form", optimizer.name()));
}

}  // namespace metronome
