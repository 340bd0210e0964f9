#include "executor/compile/linked_targets.h"

#include "executor/cuda/capture/cuda_backend.h"
#include "executor/cuda/driver/null_driver.h"

namespace metronome::executor::compile {

std::unique_ptr<Backend> open_device_graph(const Target& target, const CompileOptions& options,
                                           const std::string& graph) {
  return capture::open_cuda_graph(target, options, graph);
}

std::unique_ptr<Backend> open_device_stepwise(const Target& target, const CompileOptions& options,
                                              const std::string& graph) {
  return capture::open_stepwise(target, options, graph);
}

std::shared_ptr<CudaDriver> null_driver() { return std::make_shared<NullDriver>(); }

}  // namespace metronome::executor::compile
