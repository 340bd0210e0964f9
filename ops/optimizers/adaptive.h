// More optimizers, for Graph::minimize: RmsProp, Adagrad, Adadelta, Adamax, RAdam, NAdam, Lion,
// Lamb, Muon, ScheduleFreeAdamW. Names, defaults and formulas are PyTorch's, or the authors' where
// it has none.
//
// Of all, the learning rate, the weight decay and the norm to clip to may be `Settable`. The weight
// decay is added to the gradient, weight_decay * parameter, where nothing else is said.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/error.h"
#include "graph/ir/optimizer.h"
#include "ops/optimizers/common.h"
#include "ops/optimizers/schedules.h"
#include "ops/optimizers/settable.h"

namespace metronome {

/// Hinton's RMSprop, as torch.optim.RMSprop: the centered form divides by the deviation of
/// gradients (Graves, "Generating sequences with recurrent neural networks", 2013).
struct RmsProp {
  static constexpr std::string_view name = "rmsprop";
  LearningRate lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  Hyperparameter weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  std::optional<Hyperparameter> clip_norm = {};
  bool maximize = false;  ///< climbs the loss
  bool operator==(const RmsProp&) const = default;

  METRONOME_OPTIMIZER_NUMBERS
  std::string attributes() const;
  std::vector<Moment> moments() const;
  Values scalars(Value update, double rate, std::span<const Value> states = {}) const;
  Values update(Value parameter, Value gradient, std::span<const Value> moments,
                std::span<const Value> scalars) const;
  std::optional<Requirement> mistake() const;
};

/// Duchi and others, "Adaptive subgradient methods" (2011), as torch.optim.Adagrad.
struct Adagrad {
  static constexpr std::string_view name = "adagrad";
  LearningRate lr = 1e-2;
  double lr_decay = 0;
  Hyperparameter weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  std::optional<Hyperparameter> clip_norm = {};
  bool maximize = false;
  bool operator==(const Adagrad&) const = default;

  METRONOME_OPTIMIZER_NUMBERS
  std::string attributes() const;
  std::vector<Moment> moments() const;
  Values scalars(Value update, double rate, std::span<const Value> states = {}) const;
  Values update(Value parameter, Value gradient, std::span<const Value> moments,
                std::span<const Value> scalars) const;
  std::optional<Requirement> mistake() const;
};

/// Zeiler, "ADADELTA: an adaptive learning rate method" (2012), as torch.optim.Adadelta.
struct Adadelta {
  static constexpr std::string_view name = "adadelta";
  LearningRate lr = 1.0;
  double rho = 0.9;
  double eps = 1e-6;
  Hyperparameter weight_decay = 0;
  std::optional<Hyperparameter> clip_norm = {};
  bool maximize = false;
  bool operator==(const Adadelta&) const = default;

  METRONOME_OPTIMIZER_NUMBERS
  std::string attributes() const;
  std::vector<Moment> moments() const;
  Values scalars(Value update, double rate, std::span<const Value> states = {}) const;
  Values update(Value parameter, Value gradient, std::span<const Value> moments,
                std::span<const Value> scalars) const;
  std::optional<Requirement> mistake() const;
};

/// Adam by the largest gradient in place of the mean square: Kingma and Ba, "Adam" (2015), as
/// torch.optim.Adamax.
struct Adamax {
  static constexpr std::string_view name = "adamax";
  LearningRate lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  Hyperparameter weight_decay = 0;
  std::optional<Hyperparameter> clip_norm = {};
  bool maximize = false;
  bool operator==(const Adamax&) const = default;

  METRONOME_OPTIMIZER_NUMBERS
  std::string attributes() const;
  std::vector<Moment> moments() const;
  Values scalars(Value update, double rate, std::span<const Value> states = {}) const;
  Values update(Value parameter, Value gradient, std::span<const Value> moments,
                std::span<const Value> scalars) const;
  std::optional<Requirement> mistake() const;
};

/// Adam that divides by the mean square only when that is of enough gradients: Liu and others, "On
/// the variance of the adaptive learning rate and beyond" (2020), as torch.optim.RAdam.
struct RAdam {
  static constexpr std::string_view name = "radam";
  LearningRate lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  Hyperparameter weight_decay = 0;
  bool decoupled_weight_decay = false;  ///< the parameter is scaled by 1 - lr * weight_decay
  std::optional<Hyperparameter> clip_norm = {};
  bool maximize = false;
  bool operator==(const RAdam&) const = default;

  METRONOME_OPTIMIZER_NUMBERS
  std::string attributes() const;
  std::vector<Moment> moments() const;
  Values scalars(Value update, double rate, std::span<const Value> states = {}) const;
  Values update(Value parameter, Value gradient, std::span<const Value> moments,
                std::span<const Value> scalars) const;
  std::optional<Requirement> mistake() const;
};

/// Adam with Nesterov's momentum: Dozat, "Incorporating Nesterov momentum into Adam" (2016), as
/// torch.optim.NAdam. The product of its momenta is the state `mu_product`.
struct NAdam {
  static constexpr std::string_view name = "nadam";
  LearningRate lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  Hyperparameter weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;
  std::optional<Hyperparameter> clip_norm = {};
  bool maximize = false;
  bool operator==(const NAdam&) const = default;

  /// As METRONOME_OPTIMIZER_NUMBERS, but for the state of its own, which comes first.
  std::vector<Moment> states() const;
  Values next_states(Value update, Value loss, std::span<const Value> states) const;
  bool watches_loss() const { return lr.watches_loss(); }
  Values clip(const Values& gradients, std::span<const Value> states) const;
  Value norm(const Values& gradients) const { return gradient_norm(gradients); }
  Value learning_rate(Value update, std::span<const Value> states) const;
  std::string attributes() const;
  std::vector<Moment> moments() const;
  Values scalars(Value update, double rate, std::span<const Value> states) const;
  Values update(Value parameter, Value gradient, std::span<const Value> moments,
                std::span<const Value> scalars) const;
  std::optional<Requirement> mistake() const;
};

/// Steps by the sign of a mean of gradients: Chen and others, "Symbolic discovery of optimization
/// algorithms" (2023). The parameter is first scaled by 1 - lr * weight_decay.
struct Lion {
  static constexpr std::string_view name = "lion";
  LearningRate lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  Hyperparameter weight_decay = 0;
  std::optional<Hyperparameter> clip_norm = {};
  bool maximize = false;
  bool operator==(const Lion&) const = default;

  METRONOME_OPTIMIZER_NUMBERS
  std::string attributes() const;
  std::vector<Moment> moments() const;
  Values scalars(Value update, double rate, std::span<const Value> states = {}) const;
  Values update(Value parameter, Value gradient, std::span<const Value> moments,
                std::span<const Value> scalars) const;
  std::optional<Requirement> mistake() const;
};

/// Adam whose step of a parameter is as long as the parameter's norm: You and others, "Large batch
/// optimization for deep learning: training BERT in 76 minutes" (2020), algorithm 2 with phi(x) =
/// x. The weight decay is added to Adam's direction. The ratio of norms is 1
/// where one of them is 0.
struct Lamb {
  static constexpr std::string_view name = "lamb";
  LearningRate lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  Hyperparameter weight_decay = 0.01;
  std::optional<Hyperparameter> clip_norm = {};
  bool maximize = false;
  bool operator==(const Lamb&) const = default;

  METRONOME_OPTIMIZER_NUMBERS
  std::string attributes() const;
  std::vector<Moment> moments() const;
  Values scalars(Value update, double rate, std::span<const Value> states = {}) const;
  Values update(Value parameter, Value gradient, std::span<const Value> moments,
                std::span<const Value> scalars) const;
  std::optional<Requirement> mistake() const;
};

/// Momentum whose matrices are made orthogonal before each step, by five iterations of Newton and
/// Schulz: Jordan and others, "Muon: an optimizer for hidden layers in neural networks" (2024). For
/// matrices [rows, columns] alone, and kernels of convolutions, read as [rows, rest]: other
/// parameters need an objective of their own over the same loss. The iterations are in the
/// parameter's element type, the authors' in bf16. The step is scaled by sqrt(max(1, rows /
/// columns)), and the parameter first by 1 - lr * weight_decay.
struct Muon {
  static constexpr std::string_view name = "muon";
  LearningRate lr = 0.02;
  Hyperparameter weight_decay = 0;
  double momentum = 0.95;
  bool nesterov = true;
  int steps = 5;  ///< iterations
  std::optional<Hyperparameter> clip_norm = {};
  bool maximize = false;
  bool operator==(const Muon&) const = default;

  METRONOME_OPTIMIZER_NUMBERS
  std::string attributes() const;
  std::vector<Moment> moments() const;
  Values scalars(Value update, double rate, std::span<const Value> states = {}) const;
  Values update(Value parameter, Value gradient, std::span<const Value> moments,
                std::span<const Value> scalars) const;
  std::optional<Requirement> mistake() const;
};

/// AdamW without a schedule: Defazio and others, "The road less scheduled" (2024), as
/// schedulefree.AdamWScheduleFree with r = 0. Parameters are where gradients are taken; evaluate
/// with the average, `{.with = "schedule_free"}`, which is what it trains. The learning rate may
/// begin with a `LinearWarmup`; steps of large rates weigh more in the average. Weights decay where
/// gradients are taken: weight_decay * parameter is added to the step. States: `weight_sum`,
/// `lr_max`.
struct ScheduleFreeAdamW {
  static constexpr std::string_view name = "schedule_free_adamw";
  LearningRate lr = 2.5e-3;
  double beta1 = 0.9;  ///< how near to the average gradients are taken; above 0
  double beta2 = 0.999;
  double eps = 1e-8;
  Hyperparameter weight_decay = 0;
  std::optional<Hyperparameter> clip_norm = {};
  bool maximize = false;
  bool operator==(const ScheduleFreeAdamW&) const = default;

  /// As METRONOME_OPTIMIZER_NUMBERS, but for the states of its own, which come first.
  std::vector<Moment> states() const;
  Values next_states(Value update, Value loss, std::span<const Value> states) const;
  bool watches_loss() const { return lr.watches_loss(); }
  Values clip(const Values& gradients, std::span<const Value> states) const;
  Value norm(const Values& gradients) const { return gradient_norm(gradients); }
  Value learning_rate(Value update, std::span<const Value> states) const;
  std::string attributes() const;
  std::vector<Moment> moments() const;
  Values scalars(Value update, double rate, std::span<const Value> states) const;
  Values update(Value parameter, Value gradient, std::span<const Value> moments,
                std::span<const Value> scalars) const;
  std::optional<Requirement> mistake() const;
};

}  // namespace metronome
