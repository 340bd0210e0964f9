#include "models/gallery/learners.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/square.h>

namespace metronome::gallery {

at::Tensor pushed(const at::Tensor& state, const at::Tensor& action) {
  const at::Tensor place = state.slice(1, 0, 1), speed = state.slice(1, 1, 2);
  const at::Tensor later = speed + 0.3 * action;
  return at::cat({place + 0.1 * later, later}, 1);
}

at::Tensor reward_of(const at::Tensor& state, const at::Tensor& action) {
  const at::Tensor place = state.slice(1, 0, 1), speed = state.slice(1, 1, 2);
  return -(at::square(place) + 0.1 * at::square(speed) + 0.01 * at::square(action));
}

Transitions transitions(std::int64_t rows, std::int64_t step) {
  const at::Tensor state = hash_numbers(rows, 2, step, 1) * 1.5;
  const at::Tensor action = hash_numbers(rows, 1, step, 2);
  return {state, action, reward_of(state, action), pushed(state, action)};
}

std::vector<Feed> feed_transitions(std::int64_t rows, std::int64_t step, Element element) {
  const Transitions t = transitions(rows, step);
  return {{"state", cast(t.state, element)},
          {"action", cast(t.action, element)},
          {"reward", cast(t.reward, element)},
          {"next", cast(t.next, element)}};
}

}  // namespace metronome::gallery
