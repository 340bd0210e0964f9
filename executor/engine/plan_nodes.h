// Questions that engines and reports ask of a plan's nodes, one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "executor/engine/plan.h"
#include "executor/engine/profile.h"
#include "graph/ir/graph.h"

namespace metronome::executor {

/// True for a node that runs a kernel: neither an input, nor a storage's value, nor a view.
bool has_kernel(const ir::Graph& graph, const Node& node);
/// How many do.
std::size_t kernels_of(const ir::Graph& graph);

/// "layer_norm \"tower/0/layer_norm\" (tower.cc:50)".
std::string describe(const Node& node);
/// "matmul {transpose_b} f32[4, 1024] x f32[2048, 1024]".
std::string describe(const Node& node, std::span<const Type> inputs);

/// The node's kernel as profiles tell of it, with no time yet.
KernelTime kernel_of(const ir::Graph& graph, const Node& node);
/// The entry in profiles of a copy of an assigned value, and of the executor's own work.
KernelTime kernel_of_assignment(const ir::Graph& graph, const Assignment& assignment);
KernelTime kernel_of(std::string executor_work);

/// The guard under which a node must run, with values where the plan puts them: its own, or a
/// stronger one if the node has nothing to do without that. Absent: always.
ValueId guard_of(const Plan& plan, std::int32_t node);

/// A value that is a view: what it views, and where in it. Absent for others.
struct View {
  ValueId of;
  std::size_t offset = 0;
};
std::optional<View> view_of(const ir::Graph& graph, ValueId value);

/// The parameter that a value is, or is a view of; absent for others.
std::optional<StorageId> parameter_of(const ir::Graph& graph, ValueId value);
/// The operands that are parameters.
SteadyOperands parameters_of(const ir::Graph& graph, const Node& node);

}  // namespace metronome::executor
