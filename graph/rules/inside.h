// Operands that are made in the place where they are to lie.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "graph/rules/rule.h"

namespace metronome {

/// Input `input` may lie inside output `output`, `offset` bytes into it: its numbers are then where
/// the op would copy them to, and the kernel, which finds the two addresses equal, leaves them.
///   y = concat(a[2, 3], b[4, 3], axis 0)   a inside y at 0, b at 24 bytes of f32
struct Inside {
  int output = 0;
  int input = 0;
  std::size_t offset = 0;
};

}  // namespace metronome

/// The inputs that may be made where they are to lie in an output. `Alias` is the other way round:
/// there the output takes no bytes of its own, here the inputs take none.
METRONOME_RULE(InsideRule, inside, std::vector<Inside>, (std::span<const Type>))
