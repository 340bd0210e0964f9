#include "executor/cuda/libraries/handle.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "graph/ir/error.h"

namespace metronome::executor::libraries {
namespace {

/// Errors behind which a process "must be terminated and relaunched" ("CUDA Runtime API" 13.0,
/// cudaError_t), or whose context is gone.
constexpr cudaError_t kLost[] = {cudaErrorECCUncorrectable,
                                 cudaErrorNvlinkUncorrectable,
                                 cudaErrorContained,
                                 cudaErrorIllegalAddress,
                                 cudaErrorLaunchTimeout,
                                 cudaErrorContextIsDestroyed,
                                 cudaErrorAssert,
                                 cudaErrorHardwareStackError,
                                 cudaErrorIllegalInstruction,
                                 cudaErrorMisalignedAddress,
                                 cudaErrorInvalidAddressSpace,
                                 cudaErrorInvalidPc,
                                 cudaErrorLaunchFailure,
                                 cudaErrorTensorMemoryLeak,
                                 cudaErrorMpsClientTerminated,
                                 cudaErrorExternalDevice};

}  // namespace

void check(cudaError_t status, std::string_view doing) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // the next call must not report this one's error again
  const std::string text = fmt::format("CUDA cannot {}: {} ({})", doing, cudaGetErrorString(status),
                                       cudaGetErrorName(status));
  if (status >= cudaErrorStreamCaptureUnsupported && status <= cudaErrorStreamCaptureWrongThread) {
    throw InternalError(text);
  }
  if (std::ranges::find(kLost, status) != std::end(kLost)) {
    throw LostDevice(text +
                     "; this process has lost the device: start it again, and load the last "
                     "checkpoint");
  }
  throw RunError(text);
}

}  // namespace metronome::executor::libraries
