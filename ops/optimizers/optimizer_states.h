// The states of this library's optimizers, apart by the number that keeps them. Internal to
// ops/optimizers.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "graph/ir/optimizer.h"

namespace metronome {

/// States in the order of `list_states`. N: Value or double.
template <class N>
struct OptimizerStates {
  std::span<const N> lr, weight_decay, clip_norm;
};

/// Those of a rule with the members `lr`, `weight_decay` and `clip_norm`.
template <class Rule>
std::vector<Moment> list_states(const Rule& rule) {
  std::vector<Moment> states = rule.lr.states();
  const auto append = [&](const std::vector<Moment>& more) {
    states.insert(states.end(), more.begin(), more.end());
  };
  append(rule.weight_decay.states("weight_decay"));
  if (rule.clip_norm) append(rule.clip_norm->states("clip_norm"));
  return states;
}

template <class N, class Rule>
OptimizerStates<N> split_states(const Rule& rule, std::span<const N> states) {
  const auto take = [&](std::size_t count) {
    const std::span<const N> taken = states.first(count);
    states = states.subspan(count);
    return taken;
  };
  OptimizerStates<N> split;
  split.lr = take(rule.lr.states().size());
  split.weight_decay = take(rule.weight_decay.states("").size());
  if (rule.clip_norm) split.clip_norm = take(rule.clip_norm->states("").size());
  return split;
}

}  // namespace metronome
