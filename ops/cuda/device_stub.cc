// The empty table of device kernels, for a build without the CUDA toolkit.
#include "ops/cuda/device_kernels.h"

namespace metronome {

const DeviceKernels& device_kernels() {
  static const DeviceKernels none;
  return none;
}

}  // namespace metronome
