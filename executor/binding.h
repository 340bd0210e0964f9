// From a plan's nodes to kernels over memory.
#pragma once

#include <cstddef>
#include <functional>

#include "executor/memory.h"
#include "executor/plan.h"
#include "ops/cpu/launch.h"

namespace metronome {

/// Where a value of the plan's graph lies; null for a saved output that nothing reads.
using Locate = std::function<std::byte*(ValueId)>;

/// The kernel of one node over the memory that `locate` gives. `scratch` is 64-byte aligned and
/// holds what the chosen candidate asked for.
CpuKernel bind_node(const Plan& plan, std::int32_t node, const Locate& locate, std::byte* scratch,
                    CpuFault fault = {});

/// The guard under which a node must run where values lie as planned: its own, or a stronger one
/// where it has nothing to do without it. Absent: always.
ValueId guard_of(const Plan& plan, std::int32_t node);

/// A value that is a view: what it views, and where in it. Absent for others.
struct View {
  ValueId of;
  std::size_t offset = 0;
};
std::optional<View> view_of(const Graph& graph, ValueId value);

}  // namespace metronome
