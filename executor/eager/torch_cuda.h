// libtorch's CUDA half, which only `eager` on a GPU needs.
#pragma once

namespace metronome::executor::eager {

/// Loads libtorch_cuda where it is not loaded yet, so that CPU programs start without it, and
/// checks that libtorch sees the device. Throws RunError where either fails. TF32 is off in
/// libtorch from here on.
void load_torch_cuda(int device);

}  // namespace metronome::executor::eager
