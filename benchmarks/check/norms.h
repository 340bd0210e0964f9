// How long a tensor is, and its largest number.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/linalg_vector_norm.h>

namespace metronome::benchmarks {

/// sqrt(sum(x^2)).
inline double length(const at::Tensor& x) { return at::linalg_vector_norm(x).item<double>(); }

/// The largest magnitude; 0 for a tensor without elements.
inline double largest(const at::Tensor& x) {
  return x.numel() == 0 ? 0 : x.abs().max().item<double>();
}

}  // namespace metronome::benchmarks
