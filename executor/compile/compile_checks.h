// Checks of `compile`'s arguments and of the machine's memory.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "executor/compile/compile.h"
#include "executor/engine/backend.h"
#include "executor/engine/kernels.h"
#include "executor/engine/plan.h"
#include "executor/options/target.h"
#include "executor/run/batch_shapes.h"
#include "executor/support/free_memory.h"
#include "graph/builder/graph.h"
#include "graph/ir/graph.h"

namespace metronome::executor::compile {

/// Returns the declared graphs, each with its modes. Throws GraphError if a graph is wrong,
/// computes nothing, or does not go with the others; RunError if the target or an option cannot be
/// met.
std::vector<GraphInModes> check_arguments(std::span<const GraphFor> graphs, const Target& target,
                                          const CompileOptions& options);
/// Returns the paths that `CompileOptions::recompute` names, each once: for a glob every scope or
/// node that it finds, in the order of the graph. Throws RunError for one that finds no node.
std::vector<std::string> recomputed_paths(std::span<const GraphInModes> parts,
                                          const std::vector<std::string>& globs);
std::vector<const ir::Graph*> graphs_of(std::span<const GraphInModes> parts);

/// Throws RunError where the back end cannot run the graphs in their modes, or shows no observer.
void require_backend(const Backend& backend, std::span<const GraphInModes> parts,
                     const CompileOptions& options);
/// The options with a tuning file that can be used, and timing only where kernels run.
CompileOptions usable(CompileOptions options, const Backend& backend);

/// The graph of which evaluation computes those of `outputs` alone that it has: all others are
/// absent from its readables, and without the loss among them it has none. All of them where
/// `outputs` is empty.
ir::Graph limit_outputs(const ir::Graph& graph, const std::vector<std::string>& outputs);

/// Throws RunError, which says what to do, for the first node that `target` has no kernel for.
void require_kernels(const ir::Graph& graph, const Kernels& kernels, const OwnOps& ops,
                     const std::string& target);

/// Returns the least that graphs take, as they are declared: storages and inputs.
Needs declared_needs(std::span<const ir::Graph* const> graphs);
/// The graph's biggest value that a kernel makes: what each plan of it takes at least.
Needs biggest_value(const ir::Graph& graph);
/// Returns what the executable takes of the host's memory; `storages` are those of all plans.
Needs needs_of(std::span<const ir::Graph* const> graphs, std::span<const Storage> storages,
               std::span<const Plan> plans, const Backend& backend);

}  // namespace metronome::executor::compile
