// Ops that refuse numbers.
#pragma once

#include <optional>
#include <string>

#include "graph/rules/rule.h"

namespace metronome {

/// The range of a floating operand's numbers. One outside of it, such as a NaN, stops no step: the
/// op goes on with it, and executors report it (`Executable::fault`).
struct NumberLimits {
  int operand = 0;
  double least = 0;
  double most = 0;                         ///< is in the range, as the least is
  std::string (*words)(double) = nullptr;  ///< says what is wrong with a number outside of it

  bool hold(double number) const { return number >= least && number <= most; }
};

}  // namespace metronome

/// The limits of which the op's kernels report a number outside; absent for ops that take every
/// number. An op with limits looks nothing up (graph/rules/indexing.h).
METRONOME_RULE(LimitsRule, limits, std::optional<NumberLimits>, ())
