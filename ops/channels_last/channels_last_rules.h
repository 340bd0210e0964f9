// Launches and libtorch calls of ops over tensors stored channels last.
#pragma once

#include "graph/compounds/channels_last.h"
#include "ops/rules/rules.h"

namespace metronome {

/// Each is the op's own, told that tensors are stored so (`CudaLaunch::channels_last`).
void record(const ChannelsLast& op, const CudaLaunch& launch);
METRONOME_CUDA_CANDIDATES(ChannelsLast);
/// The op's own, on tensors whose dimensions are permuted.
Tensors reference(const ChannelsLast& op, const Tensors& inputs);

}  // namespace metronome
