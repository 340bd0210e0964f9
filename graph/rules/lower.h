// How the pass `lower` expands an op.
#pragma once

#include <span>

#include "graph/rules/rule.h"

/// Expands the op to other ops: one value per visible output. An op that has a `vjp`, too, is run
/// whole where the target covers it and what its vjp makes, and that is faster (Settings::keeps);
/// one without a vjp never is.
METRONOME_RULE(LowerRule, lower, Values, (std::span<const Value>))
