// How the pass `loosen` splits an op, so that a part of it can join what follows.
#pragma once

#include <span>

#include "graph/rules/rule.h"

/// An equal value (rounding apart) by several ops, the last of which has a `fusion` rule where this
/// one has none; or absent. Only for ops with one output.
///   linear(x, w, b)  becomes  matmul(x, w^T) + b    the sum can join what follows it
METRONOME_RULE(LoosenRule, loosen, Value, (std::span<const Value>))
