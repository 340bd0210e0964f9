// Between Metronome's tensors and libtorch's.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "executor/support/tensor.h"

namespace metronome {

/// Describes `from` in `as`, with libtorch's current stream if it lies on a CUDA device. If it is a
/// tensor of Metronome's kinds, `as.tensor` borrows its bytes, to be read as long as `from` keeps
/// them; a negated view or a zero tensor, which has no such bytes, is copied, and `as.tensor` owns
/// the copy. `as` is written over: its vectors are used again, so that a feed of the same rank
/// allocates nothing.
void show(const at::Tensor& from, CallerTensor& as);

/// Keeps the tensor's bytes.
std::shared_ptr<void> owner_of(const at::Tensor& tensor);

/// The tensor itself, whose bytes the result keeps. Throws RunError where `show` finds something
/// else, or a tensor on a device: "requires a dense tensor of f32, f64, i32, i64, bool, bf16 or f16
/// on the CPU, but the tensor is Byte[2]".
Tensor from_torch(const at::Tensor& from);

/// A tensor over the same bytes, which it keeps as `from.owner` does; the very tensor that `from`
/// came from where it did. Throws RunError for a stride below zero, which libtorch has not.
at::Tensor to_torch(const Tensor& from);

}  // namespace metronome
