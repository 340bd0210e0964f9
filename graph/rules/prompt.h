// Ops that orders of a step take early.
#pragma once

#include "graph/rules/rule.h"

/// True where something goes on beside the step once it has run: it runs as soon as its operands
/// are there.
METRONOME_CONSTANT_RULE(PromptRule, prompt, bool)
