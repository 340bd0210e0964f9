// Helpers for functions that are formulas of others: a call is checked as a whole, so a mistake
// names it and not an op inside, and its nodes lie under its name.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string_view>

#include "graph/ir/line.h"
#include "graph/ir/value.h"

namespace metronome {

/// Returns the result of `build`, made under the path `name`. Operands of several graphs are a
/// mistake, and so is a Requirement that `check` throws: "<name> cannot be computed". A poisoned
/// operand is the result. Throws GraphError if no operand belongs to a graph.
Value compose(std::string_view name, std::initializer_list<Value> operands, Line line,
              const std::function<void()>& check, const std::function<Value()>& build);

/// Throws where the operands are not of one floating type (f32 or f64), elements and shape.
void require_alike(std::initializer_list<Value> operands);
/// Throws where the axis is none of x; a negative one counts from the end.
void require_axis(const Value& x, std::int64_t axis);

/// max(x, 0) whose gradient at 0 is whole, as that of PyTorch's clamp_min.
Value above_0(Value x);
/// max(x, least), through which gradients flow as if it were x.
Value at_least(Value x, double least);

}  // namespace metronome
