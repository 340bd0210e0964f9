// Nodes that run graphs of their own: torch.cond, while_loop and scan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "executor/import/aten/call.h"

namespace metronome::pt2 {

/// Runs region `index` of a node on operands: its outputs; none after a mistake, which is recorded.
using RunRegion = std::function<Values(std::size_t index, const Values& operands)>;

/// The results of a node with regions. A while_loop runs at most `max_iterations` times, 1 or more;
/// if it would go on, its results are NaN, those of integers -2^52, or -2^30. Throws Unsupported.
Values run_control(const Call& call, const RunRegion& run, std::int64_t max_iterations);

/// Whether that node needs a bound of its iterations.
bool needs_bound(const ExportedNode& node);

}  // namespace metronome::pt2
