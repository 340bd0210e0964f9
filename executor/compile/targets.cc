#include "executor/compile/targets.h"

#include <memory>

#include "executor/cpu/cpu_backend.h"
#include "executor/cuda/capture/cuda_backend.h"
#include "executor/cuda/driver/null_driver.h"
#include "executor/eager/eager_backend.h"

namespace metronome {

Target cpu_replay() { return {executor::cpu::open_cpu_replay}; }

Target cuda_graph(CudaOptions options) {
  return {executor::capture::open_cuda_graph, cuda_device(options.device), options};
}

Target null(CudaOptions options) {
  Target target = cuda_graph(options);
  target.driver = std::make_shared<NullDriver>();
  return target;
}

Target stepwise(Device device) {
  const bool on_device = device.kind == Device::Kind::cuda;
  return {on_device ? executor::capture::open_stepwise : executor::cpu::open_stepwise,
          device,
          {.device = device.index}};
}

Target eager(Device device) {
  return {executor::eager::open_eager, device, {.device = device.index}};
}

}  // namespace metronome
