// What stands for the kernels of devices where the build has no CUDA toolkit.
#include "ops/cuda/device_kernels.h"

namespace metronome {

const DeviceKernels& device_kernels() {
  static const DeviceKernels none;
  return none;
}

}  // namespace metronome
