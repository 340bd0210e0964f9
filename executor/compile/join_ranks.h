// The parts of compile for ranks that run its graphs together.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "executor/engine/ranks.h"
#include "executor/options/target.h"
#include "executor/run/batch_shapes.h"
#include "executor/run/storage_access.h"
#include "graph/ir/graph.h"

namespace metronome::executor::compile {

/// The graphs joined to the ranks, if any, with states of their own; `declared` become these, which
/// the caller keeps. The options gain the ranks' ops.
std::vector<ir::Graph> join_ranks(std::vector<GraphInModes>& declared, CompileOptions& options);

/// Gives each of several ranks a device of its own, if no device is named.
void take_local_device(Target& target, const CompileOptions& options);

/// How gradients become means over the ranks, for the graph that says how all train. A loss may
/// reach some of the parameters alone.
std::optional<MeanOps> averages_of(const ir::Graph& graph, const CompileOptions& options);

/// Storages as rank 0 has them.
void begin_as_first(const Ranks& ranks, const Memory& memory, StorageAccess& storages);

}  // namespace metronome::executor::compile
