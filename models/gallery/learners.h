// A cart that is pushed to the middle: the gallery's reinforcement learners learn from it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "models/gallery/gallery.h"

namespace metronome::gallery {

/// Transitions of the cart: `state` is its position and its speed, `action` a push in (-1, 1), and
/// `reward` what it loses by being away, being fast and being pushed. All f64.
struct Transitions {
  at::Tensor state, action, reward, next;  ///< [rows, 2], [rows, 1], [rows, 1], [rows, 2]
};

/// After one tenth of a second.
at::Tensor pushed(const at::Tensor& state, const at::Tensor& action);
/// [rows, 1].
at::Tensor reward_of(const at::Tensor& state, const at::Tensor& action);
/// Transitions from all over the place, others for each step.
Transitions transitions(std::int64_t rows, std::int64_t step);
/// As feeds of "state", "action", "reward" and "next".
std::vector<Feed> feed_transitions(std::int64_t rows, std::int64_t step, Element element);

}  // namespace metronome::gallery
