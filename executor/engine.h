// What runs the steps of an executable.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

#include "executor/memory.h"
#include "graph/passes/settings.h"

namespace metronome {

class Engine {
 public:
  virtual ~Engine() = default;
  /// One step of a mode that was compiled.
  virtual void run(Mode mode) = 0;
  /// Readable `index` of the declared graph as the last step of `mode` left it.
  virtual at::Tensor readable(Mode mode, std::size_t index) const = 0;
  /// The same, of one element, as a number; allocates nothing where the engine can.
  virtual double scalar(Mode mode, std::size_t index) const = 0;
};

/// A tensor over memory that something else owns.
at::Tensor tensor_over(void* data, const Type& type);
/// The number at `data`.
double number_at(const void* data, Element element);

}  // namespace metronome
