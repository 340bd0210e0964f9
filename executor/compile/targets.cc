#include "executor/compile/targets.h"

#include "executor/compile/linked_targets.h"
#include "executor/cpu/cpu_backend.h"

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
