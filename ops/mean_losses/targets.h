// Checks that losses over classes make of their targets.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/ir/type.h"

namespace metronome {

/// Dimensions of x but `axis`, which may be negative: of what there is one target each.
Shape rows_of(const Type& x, std::int64_t axis);
/// Throws where targets are not i64, one for each row of x, whose classes lie along `axis`; absent:
/// along the last dimension, and throws where they may as well lie along dimension 1.
void require_targets(const Type& x, const Type& targets, std::optional<std::int64_t> axis);

}  // namespace metronome
