// Kernels and libtorch calls of the ops of guarded regions (graph/guarded.h).
#pragma once

#include "graph/guarded.h"
#include "ops/rules.h"

namespace metronome {

METRONOME_RULES(Guard);
METRONOME_RULES(Merge);
METRONOME_RULES(AccumulateIf);

}  // namespace metronome
