// `route` where experts choose: which rows they take, and how results become rows again.
#pragma once

#include <cstdint>

#include "graph/ir/line.h"
#include "graph/ir/value.h"

namespace metronome {

/// The rows that experts chose: slot by slot, one expert after the other.
struct ExpertChoice {
  Value row;     ///< i64[experts * slots]
  Value weight;  ///< [experts * slots, 1], the router's
};

/// The `slots` rows that each expert weighs most; weights [rows, experts].
ExpertChoice choose_by_experts(const Value& weights, std::int64_t slots, Line line);

/// Sums, for each of `rows` rows, the experts' results [slots, ...] of that row, weighed.
Value combine(const Values& results, const ExpertChoice& choice, std::int64_t rows, Line line);

/// Rows that no expert took: i64[].
Value rows_left(const Value& row, std::int64_t rows, Line line);

}  // namespace metronome
