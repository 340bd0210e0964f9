// The sparse mixture's options, and what can be asked of its result.
#pragma once

#include <cstdint>

#include "graph/ir/line.h"
#include "graph/ir/value.h"

namespace metronome {

/// Who chooses in `route`.
enum class Chooser : std::uint8_t {
  row,  ///< each row its experts; an expert takes first choices before second ones, row by row
  /// Each expert fills its slots with the rows that it weighs most, of equal ones the first; a row
  /// may be taken by any number of experts, or by none. Zhou et al., "Mixture-of-Experts with
  /// Expert Choice Routing", 2022.
  expert,
};

/// How `route` shares rows out.
struct RouteOptions {
  /// Experts for each row, from 1 to all; where experts choose, the mean over the rows.
  std::int64_t top = 1;
  /// An expert has ceil(capacity * rows * top / experts) slots, at most rows.
  double capacity = 1.25;
  Chooser chooser = Chooser::row;
};

/// Rows x experts that found no slot in the last step of the `route` that made `result`; where
/// experts choose, rows that none took: i64[].
Value dropped(Value result, Line line = Line::here());
/// The load-balancing loss of the `route` that made `result`, 1 where rows are spread evenly: E *
/// sum over e of (share of the rows' choices that fell on e) * (mean weight of e); Fedus et al.,
/// "Switch Transformers", 2021, equation 4. Gradient flows to the router. If experts choose, all
/// take equally many rows, so the loss is refused.
Value balance_loss(Value result, Line line = Line::here());

}  // namespace metronome
