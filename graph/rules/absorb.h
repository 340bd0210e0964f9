// How the pass `absorb` takes an op's only reader into it.
#pragma once

#include <cstddef>

#include "graph/rules/rule.h"

/// An op that computes the consumer as well, where the consumer reads this op's only output as the
/// operand of that number: its inputs are this op's, then the consumer's others in order. Or null.
///   p = matmul(a, b), s = accumulate(sum, p)   matmul.absorb(accumulate, 1) is a product that
///                                              adds: s = that(a, b, sum)
METRONOME_RULE(AbsorbRule, absorb, OpPtr, (const Op&, std::size_t))
