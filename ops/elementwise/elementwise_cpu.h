// Row functions of elementwise ops, for kernels that run several.
#pragma once

#include "graph/ir/type.h"
#include "ops/cpu/rows.h"
#include "ops/elementwise/elementwise.h"

namespace metronome::METRONOME_ISA {

/// By the element type of the operands (the condition of `where` apart). Throws InternalError where
/// the op's rules refuse that type.
RowFunction row_function(Function function, Element element);

}  // namespace metronome::METRONOME_ISA
