// A plan as work for a device: for each node its commands and the bytes that they touch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "executor/cuda/program/device_faults.h"
#include "executor/cuda/program/hazards.h"
#include "executor/engine/addresses.h"
#include "executor/engine/plan.h"
#include "executor/engine/profile.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/table.h"

namespace metronome::executor::program {

/// One node's commands, or the executor's own: what runs on one stream without a break.
struct Task {
  KernelTime kernel;  ///< which it is; without a time
  std::vector<Command> commands;
  TouchedMemory touched;
  /// If the guard is false, nothing reads what the task makes: the task may be skipped, or run all
  /// the same. Absent: always true.
  ValueId guard = {};
  const bool* guard_at = nullptr;
  /// False where something that it captures to may not stand in a conditional node: it runs always.
  bool conditional = true;
  /// The guard that the task computes, the first that it writes; absent for others.
  ValueId computes = {};
};

/// The objects to which nodes are bound beside their values' memory.
struct CudaBinding {
  const CudaTable& table;
  const DeviceProperties& device;
  ConstantMemory& constants;
  const DeviceFaults* faults = nullptr;  ///< where faults are reported, or null
  std::size_t base = 0;                  ///< of the plan's order, among all plans'
  bool tf32 = false;
};

/// The commands of the node at place `step` of the plan's order. `scratch` is 256-byte aligned.
Task task_of(const Plan& plan, std::size_t step, const Locator& locate, std::byte* scratch,
             const CudaBinding& binding);

/// A whole step over planned memory: the nodes in the plan's order, then the copies of assigned
/// values that are not made in place.
std::vector<Task> tasks_of(const Plan& plan, const Bases& bases, const CudaBinding& binding);

}  // namespace metronome::executor::program
