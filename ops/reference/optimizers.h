// libtorch's steps of optimizers, for eager. They know each optimizer, so they are defined above:
// ops/optimizers/optimizers_reference.cc.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "graph/ir/optimizer.h"
#include "graph/ir/structural.h"
#include "ops/rules/rules.h"

namespace metronome {

/// The updates made before an optimizer's step, and the optimizer's states as those left them.
struct UpdateState {
  std::int64_t update = 0;
  std::vector<double> states = {};
};

/// True for the optimizers that `reference_step` knows.
bool has_reference(const OptimizerRule& optimizer);
/// Returns a number that the optimizer's next step takes or makes beside the parameters
/// (`UpdateNumber`); `reference_step` must know the optimizer.
double reference_number(const OptimizerRule& optimizer, UpdateNumber number,
                        const Tensors& gradients, const UpdateState& state);
/// Returns the states behind an update with that loss.
std::vector<double> reference_states(const OptimizerRule& optimizer, const UpdateState& state,
                                     double loss);
/// Factors of the optimizer's learning rate and weight decay, for a parameter.
struct Scales {
  double rate = 1, decay = 1;
  auto operator<=>(const Scales&) const = default;
};
/// An optimizer through libtorch's fused kernels, in place.
/// `moments[k][i]` is moment k of parameter i, in the order of `OptimizerRule::moments`.
/// `scales[i]` is of parameter i; empty: 1 for all.
void reference_step(const OptimizerRule& optimizer, const Tensors& parameters, Tensors gradients,
                    const std::vector<Tensors>& moments, const UpdateState& state,
                    const std::vector<Scales>& scales = {});

}  // namespace metronome
