// libtorch's table of rules: the eager form and the oracle of every op. It is made from the list of
// all ops: ops/tables/table_reference.cc, above the ops.
#pragma once

#include <ATen/core/Tensor.h>

#include "graph/ir/op.h"
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

}  // namespace metronome
