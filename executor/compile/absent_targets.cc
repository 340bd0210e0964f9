// Stands for device_targets.cc and eager_target.cc where a program is not linked with them: symbols
// are weak, so the linker takes theirs where they are.
#include <fmt/format.h>

#include "executor/compile/linked_targets.h"
#include "graph/ir/error.h"

namespace metronome::executor::compile {
namespace {

[[noreturn]] void refuse(const std::string& graph, const char* what, const char* with) {
  throw RunError(
      fmt::format("graph \"{}\": this program is linked without {}; let its Bazel target depend on "
                  "@metronome//:{} too",
                  graph, what, with));
}

}  // namespace

[[gnu::weak]] std::unique_ptr<Backend> open_device_graph(const Target&, const CompileOptions&,
                                                         const std::string& graph) {
  refuse(graph, "CUDA", "cuda");
}

[[gnu::weak]] std::unique_ptr<Backend> open_device_stepwise(const Target&, const CompileOptions&,
                                                            const std::string& graph) {
  refuse(graph, "CUDA", "cuda");
}

[[gnu::weak]] std::unique_ptr<Backend> open_eager(const Target&, const CompileOptions&,
                                                  const std::string& graph) {
  refuse(graph, "libtorch's ops", "eager");
}

[[gnu::weak]] std::shared_ptr<CudaDriver> null_driver() { return nullptr; }

}  // namespace metronome::executor::compile
