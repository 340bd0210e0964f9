// Losses that are means over fewer rows than the batch has.
#pragma once

#include "graph/ir/line.h"
#include "graph/ir/value.h"

namespace metronome {

/// `loss`, a mean over `weight` of a rank's rows (tokens that count, the sum of their weights), as
/// data parallel training takes it: times weight, over the mean of all ranks' weights. The mean of
/// that over the ranks, and of its gradient, are those of one process with all rows:
///
///   g.minimize(mt::weighted_by(loss, tokens), mt::Adam{});
///
/// Both are scalars; the weight is of any type but bool, and not zero on all ranks.
Value weighted_by(Value loss, Value weight, Line line = Line::here());

}  // namespace metronome
