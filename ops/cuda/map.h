// Ops of one element each: their CUDA form is an expression, compiled alone or in a fused group.
#pragma once

#include <span>
#include <string>

#include "graph/ir/type.h"

namespace metronome {

/// One element of an op's result. Types in the source are those of `type_text`.
struct MapSource {
  std::span<const Type> inputs;
  Type output;
  std::span<const std::string> operands;  ///< names of the operands' elements at this place
  std::string index;                      ///< name of the element's place in the result, an Index
  std::string key;  ///< of a random op's key, an unsigned long long: sources are equal without it
};

}  // namespace metronome
