// The sparse mixture's options, and what can be asked of its result.
#pragma once

#include <cstdint>

#include "graph/ir/line.h"
#include "graph/ir/value.h"

namespace metronome {

/// How `route` shares rows out.
struct RouteOptions {
  std::int64_t top = 1;  ///< experts for each row, from 1 to all
  /// An expert has ceil(capacity * rows * top / experts) slots, at most rows.
  double capacity = 1.25;
};

/// Rows x experts that found no slot in the last step of the `route` that made `result`: i64[].
///
Value dropped(Value result, Line line = Line::here());
/// The load-balancing loss of the `route` that made `result`, 1 where rows are spread evenly: E *
/// sum over e of (share of the rows' choices that fell on e) * (mean weight of e); Fedus et al.,
/// "Switch Transformers", 2021, equation 4. Gradient flows to the router.
Value balance_loss(Value result, Line line = Line::here());

}  // namespace metronome
