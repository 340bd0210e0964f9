// What losses that are formulas are written with.
#pragma once

#include <string_view>

#include "graph/ir/value.h"
#include "ops/losses/losses.h"

namespace metronome {

/// The loss of each element, joined as asked.
Value reduced(Value each, LossReduction reduction);
/// Throws where a mean is asked of no elements.
void require_some(const Value& of, LossReduction reduction);
/// Throws where `factor`, unless absent, is not of x's element type or does not broadcast to x.
void require_broadcasts(std::string_view what, const Value& factor, const Value& x);
/// Throws where targets are not i64, one for each row of `classes` [..., classes].
void require_targets(const Value& classes, const Value& targets);

}  // namespace metronome
