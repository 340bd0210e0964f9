// Kernels and libtorch calls of the ops of guarded regions (graph/ir/guarded.h).
#pragma once

#include "graph/ir/guarded.h"
#include "ops/rules/rules.h"

namespace metronome {

METRONOME_RULES(Guard);
METRONOME_RULES(Merge);
METRONOME_RULES(AccumulateIf);

}  // namespace metronome
