// Looks for numbers that are not finite in what kernels on the CPU make (CompileOptions::watch).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "executor/cpu/binding.h"
#include "executor/engine/faults.h"
#include "ops/cpu/launch.h"

namespace metronome::executor::cpu {

/// Looks for numbers that are not finite in one plan, in the memory that its kernels are bound to.
/// It reads each tensor once more when it is made, and each input and storage at the beginning of a
/// step.
class CpuWatch {
 public:
  /// The plan's nodes count from `base` on. Its arguments must outlive it.
  CpuWatch(const Plan& plan, const Memory& memory, const Locator& locate, FaultSlot& faults,
           std::size_t base);

  /// Runs before a step's kernels.
  CpuKernel begin() const;
  /// Runs behind the node's kernel, under its guard; empty where there is nothing to look at.
  CpuKernel after(std::int32_t node) const;

 private:
  struct State;
  const Plan& plan_;
  Locator locate_;
  CpuFault fault_;
  std::size_t base_;
  std::shared_ptr<State> state_;
};

}  // namespace metronome::executor::cpu
