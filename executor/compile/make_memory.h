// The memory that all plans of one executable share, made.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "executor/engine/memory.h"
#include "graph/ir/graph.h"

namespace metronome::executor::compile {

/// Storages at their initial values for this seed; inputs zeroed. `storages` may hold more than the
/// declared graphs: the optimizer's moments. Graphs have inputs of equal names.
Memory make_memory(std::span<const ir::Graph* const> declared, std::vector<Storage> storages,
                   std::uint64_t seed);

}  // namespace metronome::executor::compile
