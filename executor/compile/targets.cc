#include "executor/compile/targets.h"

#include <fmt/format.h>

#include "executor/compile/linked_targets.h"
#include "executor/cpu/cpu_backend.h"
#include "graph/ir/error.h"

// Stands for device_targets.cc and eager_target.cc where a program is not linked with them: symbols
// are weak, so the linker takes theirs where they are.
namespace metronome::executor::compile {
namespace {

[[noreturn]] void refuse_target(const std::string& graph, const char* what, const char* with) {
  throw RunError(
      fmt::format("graph \"{}\": this program is linked without {}; let its Bazel target depend on "
                  "@metronome//:{} too",
                  graph, what, with));
}

}  // namespace

[[gnu::weak]] std::unique_ptr<Backend> open_device_graph(const Target&, const CompileOptions&,
                                                         const std::string& graph) {
  refuse_target(graph, "CUDA", "cuda");
}

[[gnu::weak]] std::unique_ptr<Backend> open_device_stepwise(const Target&, const CompileOptions&,
                                                            const std::string& graph) {
  refuse_target(graph, "CUDA", "cuda");
}

[[gnu::weak]] std::unique_ptr<Backend> open_eager(const Target&, const CompileOptions&,
                                                  const std::string& graph) {
  refuse_target(graph, "libtorch's ops", "eager");
}

[[gnu::weak]] std::shared_ptr<CudaDriver> null_driver() { return nullptr; }

}  // namespace metronome::executor::compile

namespace metronome {

Target cpu_replay() { return {executor::cpu::open_cpu_replay}; }

Target cuda_graph(CudaOptions options) {
  return {executor::compile::open_device_graph, cuda_device(options.device.value_or(0)), options};
}

Target null(CudaOptions options) {
  Target target = cuda_graph(options);
  target.driver = executor::compile::null_driver();
  return target;
}

Target stepwise(Device device) {
  const bool on_device = device.kind == Device::Kind::cuda;
  return {on_device ? executor::compile::open_device_stepwise : executor::cpu::open_stepwise,
          device,
          {.device = device.index}};
}

Target eager(Device device, bool channels_last) {
  return {executor::compile::open_eager, device, {.device = device.index}, channels_last};
}

}  // namespace metronome
