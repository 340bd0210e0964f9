// Whether a kernel's code can be launched as its command asks, decided from what the CUDA runtime
// tells of it: no call of CUDA here.
#pragma once

#include <string_view>

#include "ops/kernel/kernel.h"

namespace metronome::executor::runtime {

/// Properties of a kernel's code on a device, as the CUDA runtime tells them.
struct KernelCode {
  int threads = 0;       ///< the most of a block
  int registers = 0;     ///< of a thread
  int shared_bytes = 0;  ///< the most that a launch may ask for
};

/// Throws InternalError with both numbers where a launch has more threads or shared memory than the
/// code allows: the device would refuse it.
void require_launchable(std::string_view kernel, const cuda::KernelShape& shape,
                        const KernelCode& code);

}  // namespace metronome::executor::runtime
