// What runs the steps of an executable.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "executor/memory.h"
#include "graph/passes/settings.h"

namespace metronome {

/// An engine whose memory is a device's keeps storages there; their blocks in `Memory` are then
/// copies, which `fetch` and `push` bring up to date in either direction.
class Engine {
 public:
  virtual ~Engine() = default;
  /// One step of a mode that was compiled.
  virtual void run(Mode mode) = 0;
  /// Readable `index` of the declared graph as the last step of `mode` left it.
  virtual at::Tensor readable(Mode mode, std::size_t index) const = 0;
  /// The same, of one element, as a number; allocates nothing where the engine can.
  virtual double scalar(Mode mode, std::size_t index) const = 0;
  /// A number of step `step`, counted from 0 over all modes. Throws RunError where it is not kept.
  virtual double scalar(Mode mode, std::size_t index, std::int64_t step) const;
  /// Steps begun, of all modes.
  virtual std::int64_t steps() const = 0;

  /// Host memory that the next step takes input `index` from; waits until it may be written.
  virtual std::byte* feed(std::size_t index) = 0;
  /// Brings a storage's block up to date with the last step.
  virtual void fetch(std::size_t storage) const { static_cast<void>(storage); }
  /// Takes over a storage's block, which has been written to.
  virtual void push(std::size_t storage) { static_cast<void>(storage); }

  /// The first node, in the order of the plan that ran, that met a number that is not finite, if
  /// any step so far has; absent where the engine does not watch.
  virtual std::optional<std::string> non_finite() const { return std::nullopt; }
};

/// A tensor over memory that something else owns.
at::Tensor tensor_over(void* data, const Type& type);
/// The number at `data`.
double number_at(const void* data, Element element);

}  // namespace metronome
