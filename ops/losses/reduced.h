// Helpers for losses that are formulas.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/ir/type.h"
#include "graph/ir/value.h"
#include "ops/losses/losses.h"

namespace metronome {

/// The loss of each element, joined as asked.
Value reduce_loss(Value each, LossReduction reduction);
/// Throws where a mean is asked of no elements.
void require_some(const Value& of, LossReduction reduction);
/// Throws where `factor`, unless absent, is not of x's element type or does not broadcast to x.
void require_broadcasts(std::string_view what, const Value& factor, const Value& x);

/// x [..., classes].
Value with_classes_last(Value x, std::optional<std::int64_t> axis);

}  // namespace metronome
