#include "executor/engine/target.h"

namespace metronome {

Target cpu_replay() { return {Target::Kind::cpu_replay}; }
Target cuda_graph(CudaOptions options) {
  return {Target::Kind::cuda_graph, cuda_device(options.device), options};
}
Target stepwise(Device device) {
  return {Target::Kind::stepwise, device, {.device = device.index}};
}
Target eager(Device device) { return {Target::Kind::eager, device, {.device = device.index}}; }

}  // namespace metronome
