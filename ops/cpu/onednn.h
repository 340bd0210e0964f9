// What kernels made of oneDNN's primitives share.
#pragma once

#include <omp.h>

namespace metronome::METRONOME_ISA {

/// oneDNN allocates in each execute call and spends 0.4 us on it: it is worth that from here.
inline constexpr double kOnednnFlops = 2e6;

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

}  // namespace metronome::METRONOME_ISA
