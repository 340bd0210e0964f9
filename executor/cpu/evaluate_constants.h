// Ops of constants, run while a graph is compiled.
#pragma once

#include <span>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/settings.h"

namespace metronome::executor::cpu {

/// Runs one op once, by its own kernel, on constants; called by the pass `fold`
/// (`Settings::evaluate`). Returns one result per output; none if the op met a fault, which each
/// step is to report, and none for ops that are not in ops/ops.h.
std::vector<Bytes> evaluate_constants(const Op& op, std::span<const Type> types,
                                      std::span<const Bytes> inputs);

}  // namespace metronome::executor::cpu
