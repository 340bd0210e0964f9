// The back ends that a program has only where it is linked with them, as they take long to build:
// those of a device with //executor:cuda, libtorch with //executor:eager. Else they refuse.
#pragma once

#include <memory>
#include <string>

#include "executor/engine/backend.h"
#include "executor/options/target.h"

namespace metronome::executor::compile {

/// `Target::open` of `cuda_graph` and of `stepwise` on a device. Throw RunError where the program
/// is not linked with them, or as executor/cuda/capture/cuda_backend.h says.
std::unique_ptr<Backend> open_device_graph(const Target& target, const CompileOptions& options,
                                           const std::string& graph);
std::unique_ptr<Backend> open_device_stepwise(const Target& target, const CompileOptions& options,
                                              const std::string& graph);
/// `Target::open` of `eager`: the same with executor/eager/eager_backend.h.
std::unique_ptr<Backend> open_eager(const Target& target, const CompileOptions& options,
                                    const std::string& graph);
/// Returns the driver in which `null` records its calls; empty if the program is not linked with
/// it.
std::shared_ptr<CudaDriver> null_driver();

}  // namespace metronome::executor::compile
