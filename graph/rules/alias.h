// Views: results whose bytes are an operand's.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "graph/rules/rule.h"

namespace metronome {

/// Output `output` is a view of input `input`, beginning `offset` bytes into it.
struct Alias {
  int output = 0;
  int input = 0;
  std::size_t offset = 0;
};

}  // namespace metronome

METRONOME_RULE(AliasRule, alias, std::optional<Alias>, (std::span<const Type>))
