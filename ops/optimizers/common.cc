#include "ops/optimizers/common.h"

#include "ops/expr/functions.h"
#include "ops/rules/require.h"

namespace metronome {

std::vector<Moment> OptimizerNumbers::states() const {
  std::vector<Moment> states = lr.states();
  const auto append = [&](const std::vector<Moment>& more) {
    states.insert(states.end(), more.begin(), more.end());
  };
  append(weight_decay.states("weight_decay"));
  if (clip_norm) append(clip_norm->states("clip_norm"));
  return states;
}

Values OptimizerNumbers::next_states(Value update, Value loss,
                                     std::span<const Value> states) const {
  const States<Value> split = this->split(states);
  Values next = lr.next_states(update, loss, split.lr);
  next.insert(next.end(), split.weight_decay.begin(), split.weight_decay.end());
  next.insert(next.end(), split.clip_norm.begin(), split.clip_norm.end());
  return next;
}

Values OptimizerNumbers::clip(const Values& gradients, std::span<const Value> states) const {
  if (!clip_norm || gradients.empty()) return gradients;
  if (!clip_norm->settable()) return clip_gradients(gradients, clip_norm->number());
  return clip_gradients(gradients, clip_norm->at(gradients[0], split(states).clip_norm));
}

Value OptimizerNumbers::learning_rate(Value update, std::span<const Value> states) const {
  return lr.at(update, split(states).lr);
}

Values OptimizerNumbers::scalars(Value update, double rate, std::span<const Value> states,
                                 const Values& others) const {
  const Value plain = learning_rate(update, states);
  Values made = {rate == 1 ? plain : plain * rate};
  made.insert(made.end(), others.begin(), others.end());
  if (!weight_decay.is_zero()) {
    made.push_back(weight_decay.at(plain, split(states).weight_decay));
  }
  return made;
}

std::optional<Requirement> OptimizerNumbers::mistake() const {
  std::optional<Requirement> clipped;
  if (clip_norm) {
    clipped = unless_above_0("clip_norm", clip_norm->number());
    if (clipped && clip_norm->number() > 0) {
      clipped->way_out = "leave it out, and nothing is clipped";
    }
  }
  return first_of(
      {lr.mistake(), unless_at_least_0("weight_decay", weight_decay.number()), clipped});
}

}  // namespace metronome
