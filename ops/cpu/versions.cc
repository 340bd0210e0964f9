#include "ops/cpu/versions.h"

#include <fmt/format.h>
#include <torch/headeronly/version.h>
#include <oneapi/dnnl/dnnl.hpp>

namespace metronome {

std::string cpu_library_versions() {
  const dnnl_version_t* onednn = dnnl_version();
  return fmt::format("libtorch {}, oneDNN {}.{}.{}", TORCH_VERSION, onednn->major, onednn->minor,
                     onednn->patch);
}

}  // namespace metronome
