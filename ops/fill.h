// Numbers as values.
#pragma once

#include <optional>

#include "graph/line.h"
#include "graph/type.h"
#include "graph/value.h"

namespace metronome {

/// Every element the same number. Throws InternalError without a graph.
Value fill(GraphState* graph, double number, Type type, Line line = {});

/// The number that every element of `value` is known to be, if there is one: a Fill, a constant of
/// one element, or one of these broadcast.
std::optional<double> number_of(const Value& value);

}  // namespace metronome
