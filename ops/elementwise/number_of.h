// Values that are known to be one number: what identities look for.
#pragma once

#include <optional>

#include "graph/ir/value.h"

namespace metronome {

/// The number that every element of `value` is known to be, if there is one: a Fill, a constant of
/// one element, or one of these broadcast.
std::optional<double> number_of(const Value& value);

}  // namespace metronome
