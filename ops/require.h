// What shape rules ask for, in the words of their errors. All throw Requirement.
#pragma once

#include <span>

#include "graph/type.h"

namespace metronome {

void require_floating(const Type& type);  ///< f32 or f64
void require_number(const Type& type);    ///< anything but bool
void require_boolean(const Type& type);
void require_integer(const Type& type);  ///< i32 or i64
void require_equal_elements(std::span<const Type> types);

}  // namespace metronome
