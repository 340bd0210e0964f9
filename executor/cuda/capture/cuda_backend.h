// A CUDA device as a back end: the captured step, and the same kernels one by one.
#pragma once

#include <memory>
#include <string>

#include "executor/engine/backend.h"
#include "executor/options/target.h"

namespace metronome::executor::capture {

/// `Target::open` of `cuda_graph` and of `stepwise` on a device: the target's driver, or the device
/// that it names. Throw RunError where CudaOptions are out of range, or there is no such device.
std::unique_ptr<Backend> open_cuda_graph(const Target& target, const CompileOptions& options,
                                         const std::string& graph);
std::unique_ptr<Backend> open_stepwise(const Target& target, const CompileOptions& options,
                                       const std::string& graph);

}  // namespace metronome::executor::capture
