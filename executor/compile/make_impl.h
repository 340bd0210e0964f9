// The tables that an executable keeps of its declarations and plans, and the memory that all plans
// share.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "executor/compile/compile.h"
#include "executor/engine/memory.h"
#include "executor/engine/plan.h"
#include "executor/engine/report.h"
#include "executor/options/target.h"
#include "executor/run/batch_shapes.h"
#include "executor/run/executable_impl.h"
#include "graph/builder/graph.h"
#include "graph/ir/graph.h"

namespace metronome::executor::compile {

/// The executable but for its memory, its engine and its report. The graphs may be gone after the
/// call. `slots`: steps whose numbers can be read.
std::unique_ptr<Executable::Impl> make_impl(std::span<const GraphFor> graphs,
                                            const BatchShapes& shapes, std::span<const Plan> plans,
                                            const CompileOptions& options, int slots);

/// Each storage of any plan: training adds the optimizer's moments.
std::vector<Storage> storages_of(std::span<const Plan> plans);

/// Storages at their initial values for this seed; inputs zeroed. `storages` may hold more than the
/// declared graphs: the optimizer's moments.
Memory make_memory(std::span<const ir::Graph* const> declared, std::vector<Storage> storages,
                   std::uint64_t seed);

/// Adds the bytes of storages and the elements of parameters.
void add_sizes(const Memory& memory, Report& report);

}  // namespace metronome::executor::compile
