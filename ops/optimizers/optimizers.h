// Optimizers as plain descriptions, for Graph::minimize: Adam, AdamW, SGD.
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

/// Kingma and Ba, "Adam: a method for stochastic optimization" (2015), as torch.optim.Adam with
/// fused=True: f32 and f64 parameters agree with it up to rounding.
///
/// Of all three, the learning rate, the weight decay and the norm to clip to may be `Settable`.
struct Adam {
  static constexpr std::string_view name = "adam";
  LearningRate lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  Hyperparameter weight_decay = 0;  ///< added to the gradient: weight_decay * parameter
  /// Most norm of all gradients together, as torch.nn.utils.clip_grad_norm_; absent: no clipping.
  std::optional<Hyperparameter> clip_norm = {};
  /// Rows of a table that a step does not look up keep their values and moments, as with
  /// torch.optim.SparseAdam: of each table that one `embedding` alone reads. Not with a
  /// weight_decay, nor data parallel.
  bool lazy = false;
  /// The mean square is the largest that there was: Reddi and others, "On the convergence of Adam
  /// and beyond" (2018). Not with `lazy`.
  bool amsgrad = false;
  bool maximize = false;  ///< climbs the loss
  bool operator==(const Adam&) const = default;

  std::string attributes() const;
  std::vector<Moment> moments() const;
  METRONOME_OPTIMIZER_NUMBERS
  /// rate lr, 1 - beta1^t, 1 - beta2^t, where weights decay their decay; f64[].
  Values scalars(Value update, double rate, std::span<const Value> states = {}) const;
  Values update(Value parameter, Value gradient, std::span<const Value> moments,
                std::span<const Value> scalars) const;
  /// Why no training can use these numbers, or nothing.
  std::optional<Requirement> mistake() const;
};

/// Adam whose weight decay does not pass through the moments: Loshchilov and Hutter, "Decoupled
/// weight decay regularization" (2019), as torch.optim.AdamW with fused=True.
struct AdamW {
  static constexpr std::string_view name = "adamw";
  LearningRate lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  Hyperparameter weight_decay = 0.01;  ///< the parameter is first scaled by 1 - lr * weight_decay
  std::optional<Hyperparameter> clip_norm = {};
  bool amsgrad = false;
  bool maximize = false;
  bool operator==(const AdamW&) const = default;

  std::string attributes() const;
  std::vector<Moment> moments() const;
  METRONOME_OPTIMIZER_NUMBERS
  Values scalars(Value update, double rate, std::span<const Value> states = {}) const;
  Values update(Value parameter, Value gradient, std::span<const Value> moments,
                std::span<const Value> scalars) const;
  std::optional<Requirement> mistake() const;
};

/// Stochastic gradient descent, with momentum as torch.optim.SGD has it: the buffer begins as the
/// first gradient, undampened. Without momentum, weight decay, clipping and `maximize`, only
/// those rows of a large table are updated that a step looked up, to the same bits.
struct Sgd {
  static constexpr std::string_view name = "sgd";
  LearningRate lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  Hyperparameter weight_decay = 0;
  bool nesterov = false;  ///< needs a momentum and no dampening
  std::optional<Hyperparameter> clip_norm = {};
  bool maximize = false;
  bool operator==(const Sgd&) const = default;

  std::string attributes() const;
  std::vector<Moment> moments() const;
  METRONOME_OPTIMIZER_NUMBERS
  /// rate lr; with momentum the gradient's weight; where weights decay their decay; f64[].
  Values scalars(Value update, double rate, std::span<const Value> states = {}) const;
  Values update(Value parameter, Value gradient, std::span<const Value> moments,
                std::span<const Value> scalars) const;
  std::optional<Requirement> mistake() const;
};

/// How far the step's update moves a parameter, beside its size before: |after - before| /
/// |before|, f64[], to be read after a step; 1e-3 is usual.
Value update_ratio(Value parameter, Line line = Line::here());

}  // namespace metronome
