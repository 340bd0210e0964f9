// From a plan's nodes to kernels over memory.
#pragma once

#include <cstddef>

#include "executor/engine/addresses.h"
#include "executor/engine/memory.h"
#include "executor/engine/plan.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/table.h"

namespace metronome::executor::cpu {

/// The kernel of one node over the memory that `locate` gives. `scratch` is 64-byte aligned and
/// holds what the chosen candidate asked for.
CpuKernel bind_node(const CpuTable& table, const Plan& plan, std::int32_t node,
                    const Locator& locate, std::byte* scratch, CpuFault fault = {});

}  // namespace metronome::executor::cpu
