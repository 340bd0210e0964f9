// A feed: an input of a step, and the tensor that is copied into it.
#pragma once

#include <cstddef>
#include <string>

#include "executor/support/tensor.h"
#include "graph/ir/value.h"

namespace at {
class Tensor;
}

namespace metronome {

/// One input of a step and the tensor copied into it: same element type, and the sizes that a graph
/// of the executable declares; dense; on the CPU with any strides, or contiguous on the GPU of the
/// executable. It may lie in memory that `Executable::input`, `read` or `get` showed: each input
/// gets what its tensor held when the call began.
///
/// The tensor is libtorch's, or shows the caller's own numbers: `{x, from_span(numbers, {64, 16})}`
/// needs no header of libtorch.
class Feed {
 public:
  Feed(Value input, at::Tensor tensor);
  Feed(std::string name, at::Tensor tensor);
  Feed(Value input, Tensor tensor);
  Feed(std::string name, Tensor tensor);
  Feed(const Feed& other);
  Feed(Feed&& other) noexcept;
  Feed& operator=(const Feed& other);
  Feed& operator=(Feed&& other) noexcept;
  ~Feed();

  Value input;  ///< absent if the input is given by name
  std::string name;
  /// Null if it is libtorch's.
  const Tensor* own() const { return is_own_ ? &own_ : nullptr; }
  /// libtorch's tensor; undefined unless `own()` is null.
  at::Tensor& tensor() { return *reinterpret_cast<at::Tensor*>(bytes_); }
  const at::Tensor& tensor() const { return *reinterpret_cast<const at::Tensor*>(bytes_); }

 private:
  bool is_own_ = false;
  Tensor own_;
  /// libtorch's tensor, which is one pointer. The header of it takes 1.0 s to compile, and all of
  /// libtorch's 4.3 s: whoever feeds numbers of his own does without them.
  alignas(void*) std::byte bytes_[sizeof(void*)];
};

}  // namespace metronome
