// A device's kernels, as the choice among them sees them.
#pragma once

#include <memory>

#include "executor/cuda/driver/driver.h"
#include "executor/engine/kernels.h"
#include "ops/cuda/table.h"

namespace metronome::executor::program {

/// Those of `table`, which outlives them. Candidates are timed on the driver's device, on a stream
/// of its own.
std::unique_ptr<Kernels> cuda_kernels(CudaDriver& driver, const CudaTable& table, bool tf32);

}  // namespace metronome::executor::program
