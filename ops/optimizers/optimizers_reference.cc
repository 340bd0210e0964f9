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

#include <set>
#include <type_traits>

#include "graph/ir/error.h"
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

template <class T>
void adam_step(const T& rule, const Tensors& parameters, const Tensors& gradients,
               const std::vector<Tensors>& moments, std::int64_t update, const Scales& scales) {
  // One counter serves all parameters: the kernel only reads it.
  const at::Tensor count =
      at::full({}, update + 1, at::TensorOptions(at::kFloat).device(parameters[0].device()));
  const Tensors counts(parameters.size(), count);
  const auto run = [&](const auto& fused) {
    fused(parameters, gradients, moments[0], moments[1], {}, counts,
          scales.rate * rule.lr.at(update), rule.beta1, rule.beta2,
          scales.decay * rule.weight_decay, rule.eps, /*amsgrad=*/false,
          /*maximize=*/false, {}, {});
  };
  if constexpr (std::is_same_v<T, AdamW>) {
    run(at::_ops::_fused_adamw_::call);
  } else {
    run(at::_ops::_fused_adam_::call);
  }
}

void sgd_step(const Sgd& rule, const Tensors& parameters, const Tensors& gradients,
              const std::vector<Tensors>& moments, std::int64_t update, const Scales& scales) {
  at::_fused_sgd_(parameters, gradients, moments.empty() ? Tensors{} : moments[0],
                  scales.decay * rule.weight_decay, rule.momentum, scales.rate * rule.lr.at(update),
                  rule.dampening, rule.nesterov,
                  /*maximize=*/false, /*is_first_step=*/update == 0);
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
                        const Tensors& gradients, std::int64_t update) {
  double result = 0;
  const auto tell = [&](const auto& rule, const auto&) {
    if (number == UpdateNumber::learning_rate) {
      result = rule.lr.at(update);
      return;
    }
    Tensors clipped = gradients;
    if (number == UpdateNumber::clipped_gradient_norm && rule.clip_norm) {
      for (at::Tensor& gradient : clipped) gradient = gradient.clone();
      clip_gradients(clipped, *rule.clip_norm);
    }
    result = norm_of(clipped).template item<double>();
  };
  if (with_step(optimizer, tell)) return result;
  throw InternalError(fmt::format("the optimizer {} has no libtorch form", optimizer.name()));
}

void reference_step(const OptimizerRule& optimizer, const Tensors& parameters, Tensors gradients,
                    const std::vector<Tensors>& moments, std::int64_t update,
                    const std::vector<Scales>& scales) {
  if (parameters.empty()) return;
  const at::NoGradGuard no_gradients;
  const auto run = [&](const auto& rule, const auto& step) {
    if (rule.clip_norm) clip_gradients(gradients, *rule.clip_norm);
    if (scales.empty()) return step(rule, parameters, gradients, moments, update, Scales{});
    for (const Scales& these : std::set<Scales>(scales.begin(), scales.end())) {
      std::vector<Tensors> selected;
      for (const Tensors& moment : moments) {
        selected.push_back(select_by_scales(moment, scales, these));
      }
      step(rule, select_by_scales(parameters, scales, these),
           select_by_scales(gradients, scales, these), selected, update, these);
    }
  };
  if (with_step(optimizer, run)) return;
  throw InternalError(fmt::format("the optimizer {} has no libtorch form", optimizer.name()));
}

}  // namespace metronome
