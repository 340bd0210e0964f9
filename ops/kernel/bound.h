// How many threads the blocks of a kernel may have: the number that it is compiled for.
#pragma once

namespace metronome::cuda {

/// The bound of kernels that name none. Each thread may then hold 128 of a block's 65,536
/// registers; 1,024 threads would leave 64, and layer norm's gradient takes up to 126, sums over
/// columns 78.
constexpr int kMostThreads = 512;

/// The kernel's own `most_threads`, or else kMostThreads.
template <class Kernel>
constexpr int most_threads() {
  if constexpr (requires { Kernel::most_threads; }) {
    return Kernel::most_threads;
  } else {
    return kMostThreads;
  }
}

}  // namespace metronome::cuda
