// libtorch's table of rules: the eager form and the oracle of every op.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/optimizer.h"
#include "ops/rules/rules.h"

namespace metronome {

c10::ScalarType to_torch(Element element);
/// Throws RunError for an element type that Metronome does not have.
Element from_torch(c10::ScalarType type);

/// True for the ops that `reference` knows. One of a user's own is none of them.
bool has_reference(const Op& op);
/// One call of an op through libtorch; autograd records it where the inputs ask for gradients.
/// Returns the visible outputs.
Tensors reference(const Op& op, const Tensors& inputs);

/// True for the optimizers that `reference_step` knows.
bool has_reference(const OptimizerRule& optimizer);
/// An optimizer through libtorch's fused kernels, in place.
/// `slots[k][i]` is moment k of parameter i, in the order of OptimizerRule::slots; `update` counts
/// the updates made before this one. `rates[i]` multiplies the learning rate of parameter i; empty:
/// 1 for all.
void reference_step(const OptimizerRule& optimizer, const Tensors& parameters, Tensors gradients,
                    const std::vector<Tensors>& slots, std::int64_t update,
                    const std::vector<double>& rates = {});

}  // namespace metronome
