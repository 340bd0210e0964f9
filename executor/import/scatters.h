// Writes of single elements along an axis. Internal to executor/import.
#pragma once

#include <cstdint>

#include "executor/import/call.h"

namespace metronome::pt2 {

/// x, but element `index` along an axis is that of `source`: of three dimensions and axis 1,
/// y[i, index[i, j, k], k] = source[i, j, k]; of equal places the last counts. Source and index
/// have one shape, which is no larger than x's along other axes.
Value scatter_set(const Call& c, const Value& x, std::int64_t axis, const Value& index,
                  const Value& source);

}  // namespace metronome::pt2
