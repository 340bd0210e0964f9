// Stands for device_targets.cc where a program is not linked with it: symbols are weak, so the
// linker takes those of device_targets.cc where it is.
#include <fmt/format.h>

#include "executor/compile/device_targets.h"
#include "graph/ir/error.h"

namespace metronome::executor::compile {
namespace {

[[noreturn]] void refuse(const std::string& graph) {
  throw RunError(
      fmt::format("graph \"{}\": this program is linked without CUDA; let its Bazel target depend "
                  "on @metronome//:cuda too",
                  graph));
}

}  // namespace

[[gnu::weak]] std::unique_ptr<Backend> open_device_graph(const Target&, const CompileOptions&,
                                                         const std::string& graph) {
  refuse(graph);
}

[[gnu::weak]] std::unique_ptr<Backend> open_device_stepwise(const Target&, const CompileOptions&,
                                                            const std::string& graph) {
  refuse(graph);
}

[[gnu::weak]] std::shared_ptr<CudaDriver> null_driver() { return nullptr; }

}  // namespace metronome::executor::compile
