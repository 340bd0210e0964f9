// A feed given as a libtorch tensor.
#pragma once

#include <cstddef>
#include <string>

#include "graph/ir/value.h"

namespace at {
class Tensor;
}

namespace metronome {

/// One input of a step and the tensor copied into it: same element type, and the sizes that a graph
/// of the executable declares; dense, with any strides; on the CPU. It may lie in memory that
/// `Executable::input`, `read` or `get` showed: each input gets what its tensor held when the call
/// began.
class Feed {
 public:
  Feed(Value input, at::Tensor tensor);
  Feed(std::string name, at::Tensor tensor);
  Feed(const Feed& other);
  Feed(Feed&& other) noexcept;
  Feed& operator=(const Feed& other);
  Feed& operator=(Feed&& other) noexcept;
  ~Feed();

  Value input;  ///< absent if the input is given by name
  std::string name;
  at::Tensor& tensor() { return *reinterpret_cast<at::Tensor*>(bytes_); }
  const at::Tensor& tensor() const { return *reinterpret_cast<const at::Tensor*>(bytes_); }

 private:
  /// libtorch's tensor, which is one pointer. Its headers take 2.4 s to compile, so whoever only
  /// declares a model does without them.
  alignas(void*) std::byte bytes_[sizeof(void*)];
};

}  // namespace metronome
