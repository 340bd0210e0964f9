// Sums that gradients are made of.
#pragma once

#include <functional>

#include "graph/ir/type.h"
#include "graph/ir/value.h"

namespace metronome {

/// f(x), of elements of two bytes by way of f32: a sum is rounded once.
Value in_f32(Value x, const std::function<Value(Value)>& f);

/// The gradient `g` of a broadcast result, summed to the shape of the operand it belongs to.
Value sum_to(Value g, const Shape& shape);

}  // namespace metronome
