// Element types and libtorch's names of them.
#pragma once

#include <c10/core/ScalarType.h>

#include "graph/ir/type.h"

namespace metronome {

c10::ScalarType to_torch(Element element);
/// Throws RunError for an element type that Metronome does not have.
Element from_torch(c10::ScalarType type);

}  // namespace metronome
