// Runs of bytes that one kernel puts together: of concat, and of what packs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/cuda/launch.h"

namespace metronome {

/// Bytes of each row of a result.
struct Run {
  const std::byte* from = nullptr;  ///< dense rows of `bytes`; null: zeros
  std::int64_t begin = 0;           ///< in the row of the result
  std::int64_t bytes = 0;           ///< more than 0
};

/// Writes the runs, in the order of their beginnings, into rows of `row` bytes of the result; what
/// lies between them is left as it is.
void record_runs(const CudaLaunch& launch, std::int64_t rows, std::int64_t row,
                 const std::vector<Run>& runs);

}  // namespace metronome
