// From users' tensors to memory of a fixed type.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "graph/type.h"

namespace metronome {

/// "f32[64, 256]", or in libtorch's words where Metronome has none: "Half[2]".
std::string describe(const at::Tensor& tensor);

/// Defined, on the CPU, and of this type.
bool fits(const at::Tensor& tensor, const Type& type);

/// Says why the tensor cannot be copied into a place of type `required`: "graph "net": feed of "x":
/// requires f32[2], but the tensor is f32[3]". Throws RunError.
[[noreturn]] void refuse(const at::Tensor& tensor, const std::string& required,
                         const std::string& what);

/// Row-major.
void copy_into(void* to, const at::Tensor& from, const Type& type);

}  // namespace metronome
