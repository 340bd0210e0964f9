// From users' tensors to memory of a fixed type.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "executor/engine/engine.h"
#include "executor/support/tensor.h"
#include "graph/ir/type.h"

namespace metronome::executor {

/// A tensor, on the host, and of this type.
bool fits(const CallerTensor& offered, const Type& type);
/// The same, or one of contiguous elements on the engine's device.
bool fits(const CallerTensor& offered, const Type& type, const Engine& engine);

/// Says why the tensor cannot be copied into a place of type `required`: "graph "net": feed of "x":
/// requires f32[2], but the tensor is f32[3]". Throws RunError. `way_out` stands behind it if the
/// tensor lies right and is of an element type of Metronome's. `engine` is one whose device it may
/// lie on, or null.
[[noreturn]] void refuse(const CallerTensor& offered, const std::string& required,
                         const std::string& what, std::string_view way_out = "",
                         const Engine* engine = nullptr);

/// How the tensor becomes one of this type, if it has the same numbers in another order or element
/// type: "; give tensor.permute({0, 3, 1, 2}).to(at::kFloat)". Empty if it has not.
std::string describe_conversion(const CallerTensor& offered, const Type& type);

/// True if two shapes differ in their first sizes alone: those of a batch.
bool differs_in_batch(const Shape& a, const Shape& b);

/// Row-major: what `from` held before, also where its elements lie among the bytes at `to`.
void copy_into(std::byte* to, const Tensor& from);

/// The elements in memory of their own, row-major.
Tensor clone(const Tensor& tensor);

}  // namespace metronome::executor
