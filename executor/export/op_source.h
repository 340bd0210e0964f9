// Ops as C++ source.
#pragma once

#include <optional>
#include <string>

#include "graph/ir/op.h"

namespace metronome::exported {

struct OpSource {
  std::string name;  ///< of the struct that the kernel is bound from: "Softmax"
  std::string text;  ///< an expression that makes an equal one: "Softmax{-1, false}"
};

/// Absent for an op that has no kernel of Metronome's own.
std::optional<OpSource> op_source(const Op& op);

}  // namespace metronome::exported
