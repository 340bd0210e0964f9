// Operands that are read, and ops that have something to do, only under a condition.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/rules/rule.h"

namespace metronome {

/// A boolean operand of an op, and what it must be.
struct Condition {
  int operand = 0;
  bool holds = true;

  bool operator==(const Condition&) const = default;
};

}  // namespace metronome

/// The conditions under which the operand is read: it may be a value that is computed only then.
/// Empty, or without the rule: it is always read.
METRONOME_RULE(ReadIfRule, read_if, std::vector<Condition>, (std::size_t))
/// The number of a boolean operand. If that operand is false, and an output lies over an operand as
/// `InPlace` says, the op has nothing to do, and executors skip it. -1: there is none.
///   y = accumulate_if(sum, part, guard)   y over sum, {0, 0}: 2, the guard
///   y = merge(guard, value, otherwise)    y over otherwise, {0, 2}: 0, the guard
///                                         y over value, {0, 1}: -1, it may have to copy
METRONOME_RULE(IdleRule, idle_unless, int, (InPlace))

namespace metronome {

/// The answer of the op's rule, -1 without it.
inline int idle_unless(const Op& op, InPlace placed) {
  return op.has_rule<IdleRule>() ? op.ask<IdleRule>(placed) : -1;
}

}  // namespace metronome
