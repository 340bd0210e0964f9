// How an op differs between training and evaluation: the pass `for_mode`.
#pragma once

#include <span>

#include "graph/rules/rule.h"

/// The values that take the op's place in evaluation (dropout: its input), or empty if it is the
/// same.
METRONOME_RULE(EvaluateRule, evaluate, Values, (std::span<const Value>))
/// Checks the further requirements of a plan that trains (batch norm: more than one element of a
/// channel). Throws Requirement.
METRONOME_RULE(TrainingRule, require_training, void, (std::span<const Type>))
