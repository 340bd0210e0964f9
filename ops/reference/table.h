// libtorch's table of rules: the eager form and the oracle of every op. It is made from the list of
// all ops: ops/tables/table_reference.cc, above the ops.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/optimizer.h"
#include "graph/ir/structural.h"
#include "ops/rules/own_rules.h"
#include "ops/rules/rules.h"

namespace metronome {

/// One call of an op through libtorch; autograd records it where the inputs ask for gradients.
/// Returns the visible outputs. `ops`: those of one's own.
Tensors reference(const Op& op, const Tensors& inputs, const OwnOps& ops = {});
/// True for an op that `reference` knows.
bool has_reference(const Op& op, const OwnOps& ops);

/// Lays what a program keeps from step to step, an op's operands on a GPU, out in memory as
/// libtorch's call wants it: a recurrent layer's weights side by side (nn.RNN's
/// `flatten_parameters`), which it would else copy together in each step. The tensors' memory is
/// then another, with the same numbers. Other operands are undefined.
void lay_out_kept(const Op& op, const Tensors& operands);

/// True for the optimizers that `reference_step` knows.
bool has_reference(const OptimizerRule& optimizer);
/// What the next step of an optimizer that `reference_step` knows takes and makes beside the
/// parameters (`UpdateNumber`).
double reference_number(const OptimizerRule& optimizer, UpdateNumber number,
                        const Tensors& gradients, std::int64_t update);
/// What multiplies the optimizer's learning rate and weight decay, for a parameter.
struct Scales {
  double rate = 1, decay = 1;
  auto operator<=>(const Scales&) const = default;
};
/// An optimizer through libtorch's fused kernels, in place.
/// `slots[k][i]` is moment k of parameter i, in the order of OptimizerRule::slots; `update` counts
/// the updates made before this one. `scales[i]` is of parameter i; empty: 1 for all.
void reference_step(const OptimizerRule& optimizer, const Tensors& parameters, Tensors gradients,
                    const std::vector<Tensors>& slots, std::int64_t update,
                    const std::vector<Scales>& scales = {});

}  // namespace metronome
