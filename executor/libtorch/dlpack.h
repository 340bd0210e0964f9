// Tensors of other libraries by DLPack's C structures, without a copy: by those without a version,
// which Python has in capsules called "dltensor".
// Source: DLPack 1.3, dlpack.h, which every such library has; this header needs none.
#pragma once

#include "executor/support/tensor.h"

struct DLManagedTensor;

namespace metronome {

/// Takes the tensor over: its deleter is called when the last share of its bytes is given up. It
/// comes after what `stream`, a `cudaStream_t`, was asked for, if it lies on a CUDA device; see
/// `Tensor::stream`. Throws RunError for null, another device than a CPU or a CUDA device, and
/// other elements than f32, f64, i32, i64, bool, bf16 and f16; then it stays the caller's.
Tensor from_dlpack(DLManagedTensor* tensor, void* stream = nullptr);

/// The same bytes, which the result keeps until its deleter is called, as whoever takes it over
/// does. DLPack knows no stream: whoever reads bytes on a device waits for `tensor.stream` first.
DLManagedTensor* to_dlpack(const Tensor& tensor);

}  // namespace metronome
