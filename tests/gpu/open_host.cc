// Stands in for a GPU in the programs of the GPU check's dry run: they are linked to this in place
// of the CUDA runtime's `open_cuda`.
#include <memory>

#include "tests/cuda/host_driver.h"
#include "tests/nccl/host_collectives.h"

namespace metronome {

// Slow by its clock, so that few copies of what is timed make the time that is asked for.
std::unique_ptr<CudaDriver> open_cuda(int) {
  auto driver = std::make_unique<HostDriver>(
      HostSettings{.records = true, .graph_records = true, .alone_us = 60, .in_graph_us = 50});
  driver->add(std::make_shared<HostCollectiveLibrary>());
  return driver;
}

}  // namespace metronome
