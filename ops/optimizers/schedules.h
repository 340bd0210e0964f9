// Learning rates over the updates of a training.
//
//   mt::Adam{.lr = 1e-3}
//   mt::Adam{.lr = mt::Cosine{.lr = 1e-3, .steps = 10'000}}
//   mt::Adam{.lr = mt::LearningRate(mt::LinearWarmup{.lr = 1e-3, .steps = 500})
//                      .then(500, mt::Cosine{.lr = 1e-3, .steps = 9'500})}
//
// `update` counts the updates made before: 0 in the first step. Each rate has two forms that give
// the same numbers: an expression in the graph, of f64[] from the i64[] counter, which is what a
// replay evaluates, and a function on the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "graph/ir/error.h"
#include "graph/ir/value.h"

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

using Rate = std::variant<ConstantRate, LinearWarmup, Cosine, StepDecay>;

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

  Value at(Value update) const;
  double at(std::int64_t update) const;

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
  std::vector<Part> parts_;
};

/// "0.001", "cosine(lr=0.001 steps=100 minimum=0)", "... then at 500 ...".
std::string to_string(const LearningRate& schedule);

}  // namespace metronome
