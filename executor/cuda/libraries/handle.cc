#include "executor/cuda/libraries/handle.h"

#include <fmt/format.h>

#include "graph/ir/error.h"

namespace metronome::executor::libraries {

void check(cudaError_t status, std::string_view doing) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // the next call must not report this one's error again
  const std::string text = fmt::format("CUDA cannot {}: {} ({})", doing, cudaGetErrorString(status),
                                       cudaGetErrorName(status));
  if (status >= cudaErrorStreamCaptureUnsupported && status <= cudaErrorStreamCaptureWrongThread) {
    throw InternalError(text);
  }
  throw RunError(text);
}

}  // namespace metronome::executor::libraries
