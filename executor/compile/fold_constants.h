#pragma once

#include <span>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/settings.h"

namespace metronome::executor::compile {

/// Runs one op once, by its own kernel, on constants; called by `fold`. Returns one result per
/// output; none if the op met a fault, which each step is to report, and none for ops that are not
/// in ops/ops.h.
std::vector<Bytes> evaluate_constants(const Op& op, std::span<const Type> types,
                                      std::span<const Bytes> inputs);

}  // namespace metronome::executor::compile
