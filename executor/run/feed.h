// What libtorch's users feed.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>

#include "graph/ir/value.h"

namespace metronome {

/// One input of a step and the tensor copied into it: same element type, and the sizes that a graph
/// of the executable declares; dense, with any strides; on the CPU. It may lie in memory that
/// `Executable::input`, `read` or `get` showed: each input gets what its tensor held when the call
/// began.
struct Feed {
  Feed(Value input, at::Tensor tensor) : input(input), tensor(std::move(tensor)) {}
  Feed(std::string name, at::Tensor tensor) : name(std::move(name)), tensor(std::move(tensor)) {}

  Value input;  ///< absent if the input is given by name
  std::string name;
  at::Tensor tensor;
};

}  // namespace metronome
