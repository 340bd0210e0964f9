// Elements of two bytes.
#pragma once

#include "graph/rules/rule.h"

/// True where the op takes and gives elements of two bytes (bf16, f16); without the rule where it
/// only moves numbers. `infer` of other ops refuses them.
METRONOME_RULE(HalvesRule, halves, bool, ())
