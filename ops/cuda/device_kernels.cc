// METRONOME_STEMS(STEM) is STEM(softmax) STEM(layer_norm) ..., one for each <stem>_kernels.h:
// BUILD.bazel defines it.
#include "ops/cuda/device_kernels.h"

namespace metronome {
namespace cuda {

#define METRONOME_DECLARE(stem) void add_kernels_##stem(DeviceKernels& table);
METRONOME_STEMS(METRONOME_DECLARE)
#undef METRONOME_DECLARE

}  // namespace cuda

const DeviceKernels& device_kernels() {
  static const DeviceKernels table = [] {
    DeviceKernels made;
#define METRONOME_ADD(stem) cuda::add_kernels_##stem(made);
    METRONOME_STEMS(METRONOME_ADD)
#undef METRONOME_ADD
    return made;
  }();
  return table;
}

}  // namespace metronome
