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

/// x - y, but 0 where both are one infinity.
inline at::Tensor difference(const at::Tensor& x, const at::Tensor& y) {
  return (x - y).masked_fill(x.eq(y), 0);
}

/// 0 in the place of infinities.
inline at::Tensor finite_part(const at::Tensor& x) { return x.masked_fill(x.isinf(), 0); }

}  // namespace metronome::benchmarks
