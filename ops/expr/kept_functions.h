// The functions and reductions for which kernels are compiled: here all. As with ops/rules/kept.h,
// an exported library has a header of its own in this one's place.
#pragma once

#include "graph/ir/type.h"
#include "ops/expr/function.h"
#include "ops/expr/reduction.h"

namespace metronome {

/// Whether a function of each element is compiled for an element.
constexpr bool keeps(Function, Element) { return true; }
/// Whether a reduction is compiled.
constexpr bool keeps(ReduceKind) { return true; }

}  // namespace metronome
