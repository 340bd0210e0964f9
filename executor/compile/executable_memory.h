// The host memory of an executable: how much it needs, and the storages and inputs that all its
// plans share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "executor/engine/backend.h"
#include "executor/engine/memory.h"
#include "executor/engine/plan.h"
#include "executor/support/free_memory.h"
#include "graph/ir/graph.h"

namespace metronome::executor::compile {

/// Each storage of any plan: training adds the optimizer's moments.
std::vector<Storage> storages_of(std::span<const Plan> plans);

/// Storages at their initial values for this seed; inputs zeroed. `storages` may hold more than the
/// declared graphs: the optimizer's moments.
Memory make_memory(std::span<const ir::Graph* const> declared, std::vector<Storage> storages,
                   std::uint64_t seed, int threads);

/// Returns the least that graphs take, as they are declared: storages and inputs.
Needs declared_needs(std::span<const ir::Graph* const> graphs);
/// The graph's biggest value that a kernel makes: what each plan of it takes at least.
Needs biggest_value(const ir::Graph& graph);
/// Returns what the executable takes of the host's memory; `storages` are those of all plans.
Needs needs_of(std::span<const ir::Graph* const> graphs, std::span<const Storage> storages,
               std::span<const Plan> plans, const Backend& backend);

}  // namespace metronome::executor::compile
