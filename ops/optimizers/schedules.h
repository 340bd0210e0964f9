// Learning rates over the updates of a training.
//
//   mt::Adam{.lr = 1e-3}
//   mt::Adam{.lr = mt::Cosine{.lr = 1e-3, .steps = 10'000}}
//   mt::Adam{.lr = mt::LearningRate(mt::LinearWarmup{.lr = 1e-3, .steps = 500})
//                      .then(500, mt::Cosine{.lr = 1e-3, .steps = 9'500})}
//
// `update` counts the updates made before: 0 in the first step. Each rate has two forms that give
// the same numbers: an expression in the graph, of f64[] from the i64[] counter, which is what a
// replay evaluates, and a function on the host. A rate that changes by more than the counter keeps
// states of the optimizer (graph/ir/optimizer.h): f64[] scalars, given to `at` in the order of
// `states`, as they were before the update.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "graph/ir/error.h"
#include "graph/ir/optimizer.h"
#include "graph/ir/value.h"
#include "ops/optimizers/settable.h"

namespace metronome {

/// `lr`, but factor * lr in the first `steps` updates: torch.optim.lr_scheduler.ConstantLR.
struct ConstantRate {
  double lr = 1e-3;
  double factor = 1;
  std::int64_t steps = 0;
  bool operator==(const ConstantRate&) const = default;
  Value at(Value update) const;
  double at(std::int64_t update) const;
};

/// From start * lr to end * lr in `steps` updates along a line, then end * lr:
/// torch.optim.lr_scheduler.LinearLR.
struct LinearWarmup {
  double lr = 1e-3;
  std::int64_t steps = 1000;
  double start = 1.0 / 3;
  double end = 1;
  bool operator==(const LinearWarmup&) const = default;
  Value at(Value update) const;
  double at(std::int64_t update) const;
};

/// minimum + (lr - minimum) (1 + cos(pi update / steps)) / 2, which rises again after `steps`:
/// torch.optim.lr_scheduler.CosineAnnealingLR (Loshchilov and Hutter, "SGDR", 2017).
struct Cosine {
  double lr = 1e-3;
  std::int64_t steps = 1000;
  double minimum = 0;
  bool operator==(const Cosine&) const = default;
  Value at(Value update) const;
  double at(std::int64_t update) const;
};

/// lr * gamma^floor(update / every): torch.optim.lr_scheduler.StepLR.
struct StepDecay {
  double lr = 1e-3;
  std::int64_t every = 1000;
  double gamma = 0.1;
  bool operator==(const StepDecay&) const = default;
  Value at(Value update) const;
  double at(std::int64_t update) const;
};

/// lr * gamma^update: torch.optim.lr_scheduler.ExponentialLR.
struct ExponentialDecay {
  double lr = 1e-3;
  double gamma = 0.999;
  bool operator==(const ExponentialDecay&) const = default;
  Value at(Value update) const;
  double at(std::int64_t update) const;
};

/// lr * (1 - update / steps)^power, then 0: torch.optim.lr_scheduler.PolynomialLR.
struct PolynomialDecay {
  double lr = 1e-3;
  std::int64_t steps = 1000;
  double power = 1;
  bool operator==(const PolynomialDecay&) const = default;
  Value at(Value update) const;
  double at(std::int64_t update) const;
};

/// lr * gamma^n, n milestones being behind: torch.optim.lr_scheduler.MultiStepLR. Milestones rise.
struct MultiStepDecay {
  double lr = 1e-3;
  std::vector<std::int64_t> milestones = {};
  double gamma = 0.1;
  bool operator==(const MultiStepDecay&) const = default;
  Value at(Value update) const;
  double at(std::int64_t update) const;
};

/// A cosine that begins again after `steps` updates, each time after `factor` times as many:
/// torch.optim.lr_scheduler.CosineAnnealingWarmRestarts (Loshchilov and Hutter, "SGDR", 2017).
struct CosineRestarts {
  double lr = 1e-3;
  std::int64_t steps = 1000;
  std::int64_t factor = 1;
  double minimum = 0;
  bool operator==(const CosineRestarts&) const = default;
  Value at(Value update) const;
  double at(std::int64_t update) const;
};

/// From lr / start_divisor up to lr in the share `rise` of `steps` updates, then down to
/// lr / start_divisor / end_divisor, where it stays; along cosines or lines:
/// torch.optim.lr_scheduler.OneCycleLR (Smith and Topin, "Super-convergence", 2019).
struct OneCycle {
  double lr = 1e-2;
  std::int64_t steps = 1000;
  double rise = 0.3;
  double start_divisor = 25;
  double end_divisor = 1e4;
  bool linear = false;
  bool operator==(const OneCycle&) const = default;
  Value at(Value update) const;
  double at(std::int64_t update) const;
};

/// From `lr` to `highest` in `up` updates and back in `down` of them, again and again:
/// torch.optim.lr_scheduler.CyclicLR (Smith, "Cyclical learning rates", 2017). The rise is halved
/// with each cycle if `halves`, and multiplied by gamma^update.
struct Cyclic {
  double lr = 1e-3;
  double highest = 1e-2;
  std::int64_t up = 2000;
  std::int64_t down = 2000;
  bool halves = false;
  double gamma = 1;
  bool operator==(const Cyclic&) const = default;
  Value at(Value update) const;
  double at(std::int64_t update) const;
};

/// `lr`, then `factor` times what it was each time the loss has not fallen for `patience` looks:
/// torch.optim.lr_scheduler.ReduceLROnPlateau, with the mean loss of each `every` updates as its
/// metric; looks are at updates that `every` divides. The loss is the objective's own: that of the
/// replay that ends an update. It has fallen if it is below the best one by more than `threshold`
/// times that one's size, also where losses are negative, unlike PyTorch's. Ranks need a loss
/// that is the same on all of them, and what it is now can be set as a `Settable` rate.
struct Plateau {
  double lr = 1e-3;
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  std::int64_t cooldown = 0;  ///< looks after a fall of the rate that count for nothing
  double minimum = 0;         ///< the rate falls no lower
  double eps = 1e-8;          ///< nor by this or less
  std::int64_t every = 1000;
  bool operator==(const Plateau&) const = default;
};

/// The last two keep their rate as the state `learning_rate`; of these a `LearningRate` has one.
using Rate =
    std::variant<ConstantRate, LinearWarmup, Cosine, StepDecay, ExponentialDecay, PolynomialDecay,
                 MultiStepDecay, CosineRestarts, OneCycle, Cyclic, Settable, Plateau>;

/// One rate, or several in turn.
class LearningRate {
 public:
  LearningRate(double lr) : parts_{{0, ConstantRate{lr}}} {}  // NOLINT: implicit, for `.lr = 1e-3`
  template <class T>
    requires std::constructible_from<Rate, T>
  LearningRate(T rate) : parts_{{0, Rate(rate)}} {}  // NOLINT: implicit, for `.lr = Cosine{}`

  /// This rate before update `milestone`; from there on, that of `next` at update - milestone:
  /// torch.optim.lr_scheduler.SequentialLR. Milestones rise.
  LearningRate then(std::int64_t milestone, const LearningRate& next) const;

  std::vector<Moment> states() const;
  /// Both throw GraphError for a rate that keeps states, and is not given them.
  Value at(Value update, std::span<const Value> states = {}) const;
  double at(std::int64_t update, std::span<const double> states = {}) const;
  /// The states behind an update, whose loss is f64[]; one that stays is the same value.
  Values next_states(Value update, Value loss, std::span<const Value> states) const;
  std::vector<double> next_states(std::int64_t update, double loss,
                                  std::span<const double> states) const;
  /// True if the states depend on the loss.
  bool watches_loss() const;

  /// Why no training can use it (a negative rate, no steps, milestones that do not rise), or
  /// nothing.
  std::optional<Requirement> mistake() const;
  bool operator==(const LearningRate&) const = default;
  friend std::string to_string(const LearningRate& schedule);

 private:
  struct Part {
    std::int64_t from = 0;
    Rate rate;
    bool operator==(const Part&) const = default;
  };
  /// Throws GraphError where fewer states are given than there are.
  void require_states(std::size_t given) const;
  /// The part that keeps states, or null.
  const Part* part_with_states() const;

  std::vector<Part> parts_;
};

/// "0.001", "cosine(lr=0.001 steps=100 minimum=0)", "... then at 500 ...".
std::string to_string(const LearningRate& schedule);

}  // namespace metronome
