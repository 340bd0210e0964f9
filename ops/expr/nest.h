// Loop nests over dense operands: how broadcast, reduced and permuted shapes become few long loops.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/ir/type.h"

namespace metronome {

/// Loops, outermost first, and how far each operand moves in a step of each loop.
struct Nest {
  Shape sizes;
  std::vector<Shape> strides;  ///< [operand][loop], in elements; 0 where an operand is repeated

  std::int64_t rank() const { return static_cast<std::int64_t>(sizes.size()); }
  bool operator==(const Nest&) const = default;
};

/// Strides of a dense row-major shape, in elements.
Shape dense_strides(const Shape& shape);

/// Strides of a dense operand that is broadcast to `shape`; 0 along what is repeated.
Shape broadcast_strides(const Shape& operand, const Shape& shape);

/// The nest without loops of one step, neighbouring loops joined wherever every operand runs
/// through both as through one.
Nest coalesce(const Nest& nest);

/// The coalesced loops over `shape`: operand 0 is dense, `operands` are broadcast to it.
Nest broadcast_nest(const Shape& shape, std::span<const Type> operands);

}  // namespace metronome
