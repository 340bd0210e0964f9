#include "executor/cuda/runtime/libraries.h"

#include "executor/cuda/runtime/cublaslt.h"

namespace metronome::executor::runtime {

std::vector<std::unique_ptr<DeviceLibrary>> open_libraries() {
  std::vector<std::unique_ptr<DeviceLibrary>> all;
  all.push_back(std::make_unique<CublasLt>());
  return all;
}

}  // namespace metronome::executor::runtime
