#include "executor/cuda/libraries/libraries.h"

#include "executor/cuda/libraries/cublaslt.h"
#include "executor/cuda/libraries/cudnn.h"
#include "executor/cuda/libraries/nccl.h"

namespace metronome::executor::libraries {

std::vector<std::unique_ptr<DeviceLibrary>> open_libraries() {
  std::vector<std::unique_ptr<DeviceLibrary>> all;
  all.push_back(std::make_unique<CublasLt>());
  all.push_back(std::make_unique<Cudnn>());
  all.push_back(std::make_unique<Nccl>());
  return all;
}

}  // namespace metronome::executor::libraries
