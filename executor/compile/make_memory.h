// The memory that all plans of an executable share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "executor/engine/memory.h"
#include "executor/engine/plan.h"
#include "executor/engine/report.h"
#include "graph/ir/graph.h"

namespace metronome::executor::compile {

/// Each storage of any plan: training adds the optimizer's moments.
std::vector<Storage> storages_of(std::span<const Plan> plans);

/// Storages at their initial values for this seed; inputs zeroed. `storages` may hold more than the
/// declared graphs: the optimizer's moments.
Memory make_memory(std::span<const ir::Graph* const> declared, std::vector<Storage> storages,
                   std::uint64_t seed);

/// Adds the bytes of storages and the elements of parameters.
void add_sizes(const Memory& memory, Report& report);

}  // namespace metronome::executor::compile
