// From users' tensors to memory of a fixed type.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

#include "graph/ir/type.h"

namespace metronome::executor {

/// "f32[64, 256]", or in libtorch's words where Metronome has none: "Half[2]".
std::string describe(const at::Tensor& tensor);

/// Defined, dense, on the CPU, and of this type.
bool fits(const at::Tensor& tensor, const Type& type);

/// Says why the tensor cannot be copied into a place of type `required`: "graph "net": feed of "x":
/// requires f32[2], but the tensor is f32[3]". Throws RunError.
/// `way_out` stands behind it where only the shape is wrong.
[[noreturn]] void refuse(const at::Tensor& tensor, const std::string& required,
                         const std::string& what, std::string_view way_out = "");

/// True where two shapes differ in their first sizes alone: those of a batch.
bool differs_in_batch(at::IntArrayRef a, at::IntArrayRef b);

/// Row-major: what `from` held before, also where its elements lie among the bytes at `to`.
void copy_into(void* to, const at::Tensor& from, const Type& type);

/// The bytes of a tensor that has them row-major, one after the other, as it shows them; null where
/// it has not.
const std::byte* stored_bytes(const at::Tensor& tensor);

/// The bytes from a tensor's first element to its last one, in memory; empty where it has none.
struct Extent {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;

  bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};
Extent extent_of(const at::Tensor& tensor);

}  // namespace metronome::executor
