#include "executor/eager/torch_cuda.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "graph/ir/error.h"

namespace metronome::executor::eager {

void load_torch_cuda(int device) {
  // Its static initialisers register the CUDA kernels with libtorch's dispatcher.
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    throw RunError(fmt::format(
        "eager on a GPU needs libtorch_cuda.so and the CUDA libraries that it loads, and {}; "
        "install torch with its dependencies, or name their folders in LD_LIBRARY_PATH",
        dlerror()));
  }
  if (!at::detail::getCUDAHooks().hasCUDART()) {
    throw RunError(
        "eager on a GPU: libtorch looked for a GPU before its CUDA half was loaded, and looks once "
        "only (a backward pass on the CPU makes it look, and at::manual_seed); compile for eager "
        "on a GPU first, or set LD_PRELOAD=libtorch_cuda.so");
  }
  const std::size_t devices = at::getNumGPUs();
  if (device >= static_cast<int>(devices)) {
    throw RunError(fmt::format("eager on CUDA device {}: libtorch sees {} device{}", device,
                               devices, devices == 1 ? "" : "s"));
  }
  at::globalContext().setAllowTF32CuDNN(false);
  at::globalContext().setAllowTF32CuBLAS(false);
}

}  // namespace metronome::executor::eager
