#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdlib>

#include "executor/cuda/driver/driver.h"
#include "executor/cuda/runtime/refusal.h"
#include "executor/cuda/runtime/runtime_driver.h"
#include "graph/ir/error.h"

namespace metronome {
namespace {

executor::runtime::FoundDevices find_devices(int index) {
  executor::runtime::FoundDevices found;
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) found.visible = visible;
  if (cudaDriverGetVersion(&found.driver) != cudaSuccess) found.driver = 0;
  const cudaError_t status = cudaGetDeviceCount(&found.count);
  if (status != cudaSuccess) {
    found.count = 0;
    if (status != cudaErrorNoDevice) {
      found.error = fmt::format("{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
    }
    static_cast<void>(cudaGetLastError());
  }
  cudaDeviceProp properties = {};
  if (index >= 0 && index < found.count &&
      cudaGetDeviceProperties(&properties, index) == cudaSuccess) {
    found.name = properties.name;
    found.major = properties.major;
    found.minor = properties.minor;
  }
  return found;
}

}  // namespace

std::unique_ptr<CudaDriver> open_cuda(int index) {
  const std::string why = executor::runtime::refusal(find_devices(index), index);
  if (!why.empty()) throw RunError(why);
  return std::make_unique<executor::runtime::RuntimeDriver>(index);
}

}  // namespace metronome
