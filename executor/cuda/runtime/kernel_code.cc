#include "executor/cuda/runtime/kernel_code.h"

#include <fmt/format.h>

#include "graph/ir/error.h"

namespace metronome::executor::runtime {

void require_launchable(std::string_view kernel, const cuda::KernelShape& shape,
                        const KernelCode& code) {
  if (shape.threads > code.threads) {
    throw InternalError(fmt::format(
        "{} is launched with {} threads a block, and its code, of {} registers a thread, allows {}",
        kernel, shape.threads, code.registers, code.threads));
  }
  if (shape.shared_bytes > code.shared_bytes) {
    throw InternalError(
        fmt::format("{} is launched with {} bytes of shared memory, and its code allows {}", kernel,
                    shape.shared_bytes, code.shared_bytes));
  }
}

unsigned launched_shared_bytes(const cuda::KernelShape& shape) {
  constexpr unsigned kRead = 16;  // bytes of the widest access
  return (static_cast<unsigned>(shape.shared_bytes) + kRead - 1) / kRead * kRead;
}

}  // namespace metronome::executor::runtime
