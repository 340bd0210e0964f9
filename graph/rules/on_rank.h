// How an op differs between ranks: the pass `on_rank`.
#pragma once

#include <span>

#include "graph/rules/rule.h"

/// The op as that rank runs it, of several that train together on parts of a batch, each of these
/// types: what draws at random draws others than those before it. Null: the same on all.
METRONOME_RULE(OnRankRule, on_rank, OpPtr, (std::span<const Type>, int))
