// The least time that a training step can take on a GPU, from what was measured there.
#pragma once

#include "executor/metronome.h"

namespace metronome {
class CudaDriver;
}

namespace metronome::benchmarks {

struct Floor {
  double gemm_ms = 0;         ///< the library's matrix products alone, one after the other
  double convolution_ms = 0;  ///< the same of the convolutions that it offers
  double bytes = 0;           ///< that everything else must move through the device's memory
  double bytes_per_ms = 0;    ///< of a large copy on the device, read and written

  double library_ms() const { return gemm_ms + convolution_ms; }
  double ms() const { return library_ms() + (bytes_per_ms > 0 ? bytes / bytes_per_ms : 0); }
};

/// Bytes that kernels other than matrix products and convolutions must move in one training step of
/// the declared graph, however they are fused. For each such layer: its input is written and its
/// result read; in the backward pass its result is read once more, the result's gradient written
/// and, where there is one, the input's gradient read. For each trained parameter an Adam step
/// reads it, its gradient and two moments, and writes all but the gradient. Caches may save some of
/// it.
double bytes_moved(const Graph& declared);

/// Measures all on the driver's device: each product and convolution with the library's fastest
/// algorithm for it, in graphs of many copies (executor/cuda/driver/stopwatch.h).
Floor floor_of(const Graph& declared, CudaDriver& driver, bool tf32);

}  // namespace metronome::benchmarks
