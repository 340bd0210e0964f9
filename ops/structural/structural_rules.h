// Kernels and libtorch calls of the structural ops (graph/ir/structural.h). Input, Read and
// GradientOf have none.
#pragma once

#include "graph/ir/structural.h"
#include "ops/rules/rules.h"

namespace metronome {

METRONOME_RULES(Fill);
METRONOME_RULES(Constant);
METRONOME_RULES(Accumulate);
METRONOME_RULES(Increment);
METRONOME_RULES(IsMultiple);
METRONOME_RULES(IsFinite);
METRONOME_RULES(MeanWeight);
METRONOME_RULES(Copy);
METRONOME_RULES(Pack);
METRONOME_RULES(Relayout);

METRONOME_MAP(Fill);
METRONOME_MAP(Accumulate);
METRONOME_MAP(Increment);
METRONOME_MAP(Copy);

Tensors reference(const StopGradient& op, const Tensors& inputs);
Tensors reference(const Unpack& op, const Tensors& inputs);

}  // namespace metronome
