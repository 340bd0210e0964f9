// How the pass `gather` computes what a sum adds as one node.
#pragma once

#include <span>

#include "graph/rules/rule.h"

namespace metronome {

/// A node whose result is added to others'.
struct Addend {
  const Op* op = nullptr;
  std::span<const Value> inputs;
};

}  // namespace metronome

/// A value equal (rounding apart) to the sum of the results of several nodes, which are of one
/// type, computed by one node; or absent. The addends' ops are those that this one gathers with.
/// Only for ops with one output.
///   matmul(a1^T, b1) + matmul(a2^T, b2)   is   matmul(concat(a1, a2)^T, concat(b1, b2))
METRONOME_RULE(GatherRule, gather, Value, (std::span<const Addend>))
/// Whether the other op's result may be an addend; without the rule, that of an equal op.
METRONOME_RULE(GathersWithRule, gathers_with, bool, (const Op&))

namespace metronome {

/// Whether results of both ops can be addends of one gathered sum.
inline bool gather_together(const Op& op, const Op& other) {
  if (op.has_rule<GathersWithRule>()) return op.ask<GathersWithRule>(other);
  return op.has_rule<GatherRule>() && op.equals(other);
}

}  // namespace metronome
