// Ops that the pass `batch` puts together.
#pragma once

#include "graph/rules/rule.h"

/// True where several nodes of this op (equal attributes, other operands) may run as one `Batch`.
METRONOME_CONSTANT_RULE(BatchRule, batches, bool)
