#pragma once

#include <span>
#include <vector>

#include "graph/op.h"
#include "graph/passes/settings.h"

namespace metronome {

/// What `fold` calls: one op run once by its own kernel on constants. One result per output.
std::vector<Bytes> evaluate_constants(const Op& op, std::span<const Type> types,
                                      std::span<const Bytes> inputs);

}  // namespace metronome
