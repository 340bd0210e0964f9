// How a CPU kernel is chosen and bound: the launch interface that the executor sees.
//
//   candidates(op, query)   what could run this node, and the scratch bytes each needs
//   bind(op, launch)        the chosen one over planned memory: a function and its arguments
//   kernel()                a replay: no look-up, no check, no allocation
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/rules/candidate.h"
#include "ops/rules/fault.h"

namespace metronome {

/// The facts that a choice is made from.
struct CpuQuery {
  std::span<const Type> inputs;
  std::span<const Type> outputs;
  int threads = 1;  ///< the most threads a kernel may use
  SteadyOperands steady = {};
};

/// Reports faults that a kernel must not stop for: an index out of range, or the order of
/// a number that the op refuses (ops/kernel/kernel.h).
struct CpuFault {
  FaultSlot* slot = nullptr;  ///< or null: not reported
  int place = 0;              ///< the kernel's, in the order of the plan's

  void report(std::int64_t value) const {
    if (slot != nullptr) slot->report(place, value);
  }
};

/// The types, addresses and choice that a kernel is bound to. Pointers are fixed for the life of
/// the kernel; a saved output that nothing reads is null. Tensors are dense, row-major; values
/// begin at multiples of 64 bytes, views at multiples of their element.
struct CpuLaunch {
  std::span<const Type> inputs;
  std::span<const Type> outputs;
  std::span<void* const> input_data;
  std::span<void* const> output_data;
  void* scratch = nullptr;
  Candidate choice;
  CpuFault fault = {};
  /// [operand] a counter that changes when a steady operand has; null or absent for others. It
  /// lives as long as the kernel.
  std::span<const std::uint64_t* const> versions = {};

  const std::uint64_t* version_of(std::size_t operand) const {
    return operand < versions.size() ? versions[operand] : nullptr;
  }

  template <class T>
  const T* in(std::size_t i) const {
    return static_cast<const T*>(input_data[i]);
  }
  template <class T>
  T* out(std::size_t i) const {
    return static_cast<T*>(output_data[i]);
  }
};

/// A function and its arguments. It may own what it needs (a primitive, packed weights). It throws
/// if a library that it calls fails, and nothing else: a std::exception that says which call and
/// why, never out of a parallel region. Executors add the node, and break off the step.
class CpuKernel {
 public:
  CpuKernel() = default;
  /// `body()` is the kernel; it is copied once, here.
  template <class Body>
  explicit CpuKernel(Body body)
      : run_([](const void* self) { (*static_cast<const Body*>(self))(); }),
        self_(std::make_shared<const Body>(std::move(body))) {}

  void operator()() const { run_(self_.get()); }
  explicit operator bool() const { return run_ != nullptr; }

  using Function = void (*)(const void* self);
  Function function() const { return run_; }
  const void* arguments() const { return self_.get(); }

 private:
  Function run_ = nullptr;
  std::shared_ptr<const void> self_;
};

}  // namespace metronome
