#include "benchmarks/commands/device.h"

#include "graph/ir/error.h"
#include "models/commands/arguments.h"

namespace metronome::commands {

std::unique_ptr<CudaDriver> open_device() {
  try {
    return open_cuda(0);
  } catch (const RunError& error) {
    throw NoDevice(error.what());
  }
}

}  // namespace metronome::commands
