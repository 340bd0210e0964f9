// A device's kernels, as the choice among them sees them.
#pragma once

#include <memory>

#include "executor/cuda/driver/driver.h"
#include "executor/engine/kernels.h"

namespace metronome::executor::program {

/// Candidates are timed on the driver's device, on a stream of its own.
std::unique_ptr<Kernels> cuda_kernels(CudaDriver& driver, bool tf32);

}  // namespace metronome::executor::program
