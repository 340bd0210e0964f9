// Optimizer steps through libtorch's fused kernels: the eager baseline.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <type_traits>
#include <vector>

#include "graph/ir/error.h"
#include "ops/optimizers/optimizer_states.h"
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

template <class T>
RuleNumbers numbers_at(const T& rule, const UpdateState& state) {
  const auto split = split_states(rule, std::span<const double>(state.states));
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
    fused(parameters, gradients, moments[0], moments[1], {}, counts, scales.rate * numbers.lr,
          rule.beta1, rule.beta2, scales.decay * numbers.weight_decay, rule.eps, /*amsgrad=*/false,
          /*maximize=*/false, {}, {});
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
                  rule.dampening, rule.nesterov,
                  /*maximize=*/false, /*is_first_step=*/state.update == 0);
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
  return false;
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
    const auto split = split_states(rule, std::span<const double>(state.states));
    const std::vector<double> of_rate = rule.lr.next_states(state.update, loss, split.lr);
    std::ranges::copy(of_rate, next.begin());
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
