// Stands for executor/cuda/runtime/ in a build without a CUDA toolkit. The build defines
// METRONOME_NO_CUDA, half a sentence that says why there is none.
#include <memory>

#include "executor/cuda/driver/driver.h"
#include "graph/ir/error.h"

#ifndef METRONOME_NO_CUDA
#define METRONOME_NO_CUDA "there was no CUDA 13 toolkit when it was built"
#endif

namespace metronome {

std::unique_ptr<CudaDriver> open_cuda(int) {
  throw RunError("this build has no CUDA: " METRONOME_NO_CUDA);
}

}  // namespace metronome
