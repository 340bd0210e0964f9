// Ops of images, which a target may run over tensors stored channels last.
#pragma once

#include "graph/rules/rule.h"

/// True where all operands and results of three dimensions or more are images [N, C, spatial...] or
/// kernels of such shapes, so that the op may run as a `ChannelsLast`
/// (graph/compounds/channels_last.h). Such an op's device kernels know `CudaLaunch::channels_last`.
METRONOME_CONSTANT_RULE(ChannelsLastRule, channels_last, bool)
