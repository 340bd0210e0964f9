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

/// Bytes of shared memory to launch with: those asked for, up to a whole number of 16. The compiler
/// reads four elements at once where a loop's end may need fewer, past what was asked for
/// (compute-sanitizer of CUDA 13.0 tells of it: `LDS.128` in sort_runs).
unsigned launched_shared_bytes(const cuda::KernelShape& shape);

}  // namespace metronome::executor::runtime
