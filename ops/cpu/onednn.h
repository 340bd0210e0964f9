// Parts that kernels made of oneDNN's primitives share.
#pragma once

#include <fmt/format.h>
#include <omp.h>

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include <stdexcept>
#include <vector>

namespace metronome::METRONOME_ISA {

/// oneDNN plans for, and runs on, as many threads as OpenMP would use next.
class OmpThreads {
 public:
  explicit OmpThreads(int threads) : before_(omp_get_max_threads()) {
    if (before_ != threads) omp_set_num_threads(threads);
  }
  ~OmpThreads() {
    if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
  }
  OmpThreads(const OmpThreads&) = delete;
  OmpThreads& operator=(const OmpThreads&) = delete;

 private:
  int before_;
};

/// One call of a primitive. Throws std::runtime_error "oneDNN's execute failed: out_of_memory (1)".
inline void execute_onednn(const_dnnl_primitive_t primitive, dnnl_stream_t stream,
                           const std::vector<dnnl_exec_arg_t>& arguments) {
  const dnnl_status_t status = dnnl_primitive_execute(
      primitive, stream, static_cast<int>(arguments.size()), arguments.data());
  if (status == dnnl_success) return;
  throw std::runtime_error(fmt::format("oneDNN's execute failed: {} ({})", dnnl_status2str(status),
                                       static_cast<int>(status)));
}

}  // namespace metronome::METRONOME_ISA
