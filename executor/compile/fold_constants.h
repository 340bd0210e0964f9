#pragma once

#include <span>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/settings.h"

namespace metronome::executor::compile {

/// What `fold` calls: one op run once by its own kernel on constants. One result per output; none
/// where it met a fault, which is for each step to report, and for ops that are not of ops/ops.h.
std::vector<Bytes> evaluate_constants(const Op& op, std::span<const Type> types,
                                      std::span<const Bytes> inputs);

}  // namespace metronome::executor::compile
