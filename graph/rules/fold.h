// How the pass `fold` simplifies an op.
#pragma once

#include <span>

#include "graph/rules/rule.h"

/// A simpler equal value found from the inputs' nodes, or absent.
METRONOME_RULE(FoldRule, fold, Value, (std::span<const Value>))
