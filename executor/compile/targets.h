// The targets that come with Metronome.
#pragma once

#include "executor/options/target.h"

namespace metronome {

/// One walk over bound kernels in a planned arena.
Target cpu_replay();
/// The whole step as one CUDA graph in a planned arena, replayed with one launch. It, `null` and
/// `stepwise` on a device need a program that is linked with //:cuda; `compile` says so if it is
/// not (RunError).
Target cuda_graph(CudaOptions options = {});
/// Writes down what `cuda_graph` would do, and does not do it: plans and binds without a GPU. Steps
/// run, but compute nothing.
Target null(CudaOptions options = {});
/// The plan's kernels one by one, each value in memory of its own: for checking and debugging.
Target stepwise(Device device = cpu);
/// The declared graph op by op through libtorch, with its autograd and fused optimizers. It needs a
/// program that is linked with //:eager. With `channels_last` images, [N, C, H, W], lie pixel by
/// pixel from the first convolution on, as `memory_format` does it in PyTorch.
Target eager(Device device = cpu, bool channels_last = false);

}  // namespace metronome
