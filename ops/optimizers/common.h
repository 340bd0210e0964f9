// Members that the optimizers of this library have in common, of the learning rate, the weight
// decay and the norm to clip to, each of which may keep states. Internal to ops/optimizers.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "graph/ir/error.h"
#include "graph/ir/optimizer.h"
#include "graph/ir/value.h"
#include "ops/optimizers/schedules.h"
#include "ops/optimizers/settable.h"

namespace metronome {

/// The norm of all gradients together, f64[]; not a number if one of theirs is none.
Value gradient_norm(const Values& gradients);
/// All gradients scaled by one factor, so that the norm of all of them together is at most
/// `max_norm`: min(1, max_norm / (norm + 1e-6)), torch.nn.utils.clip_grad_norm_. A norm that is not
/// a number makes all gradients so.
Values clip_gradients(const Values& gradients, Operand max_norm);

/// Those members: three numbers of one optimizer.
struct OptimizerNumbers {
  const LearningRate& lr;
  const Hyperparameter& weight_decay;
  const std::optional<Hyperparameter>& clip_norm;

  /// The states of each number, which lie in this order. N: Value or double.
  template <class N>
  struct States {
    std::span<const N> lr, weight_decay, clip_norm;
  };
  template <class N>
  States<N> split(std::span<const N> states) const {
    const auto take = [&](std::size_t count) {
      const std::span<const N> taken = states.first(count);
      states = states.subspan(count);
      return taken;
    };
    States<N> split;
    split.lr = take(lr.states().size());
    split.weight_decay = take(weight_decay.settable() ? 1 : 0);
    split.clip_norm = take(clip_norm && clip_norm->settable() ? 1 : 0);
    return split;
  }

  std::vector<Moment> states() const;
  Values next_states(Value update, Value loss, std::span<const Value> states) const;
  Values clip(const Values& gradients, std::span<const Value> states) const;
  Value learning_rate(Value update, std::span<const Value> states) const;
  /// `rate` times the learning rate, then `others`, then the weight decay, where there is one.
  Values scalars(Value update, double rate, std::span<const Value> states,
                 const Values& others = {}) const;
  std::optional<Requirement> mistake() const;
};

template <class Rule>
OptimizerNumbers numbers_of(const Rule& rule) {
  return {rule.lr, rule.weight_decay, rule.clip_norm};
}

/// Gives the struct that it stands in these members.
#define METRONOME_OPTIMIZER_NUMBERS                                                   \
  std::vector<Moment> states() const { return numbers_of(*this).states(); }           \
  Values next_states(Value update, Value loss, std::span<const Value> states) const { \
    return numbers_of(*this).next_states(update, loss, states);                       \
  }                                                                                   \
  bool watches_loss() const { return lr.watches_loss(); }                             \
  Values clip(const Values& gradients, std::span<const Value> states = {}) const {    \
    return numbers_of(*this).clip(gradients, states);                                 \
  }                                                                                   \
  Value norm(const Values& gradients) const { return gradient_norm(gradients); }      \
  Value learning_rate(Value update, std::span<const Value> states) const {            \
    return numbers_of(*this).learning_rate(update, states);                           \
  }

}  // namespace metronome
