// The arguments of `compile`: what is wrong with them, and what they mean.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "executor/compile/compile.h"
#include "executor/engine/backend.h"
#include "executor/options/target.h"
#include "executor/run/batch_shapes.h"
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
CompileOptions complete_options(CompileOptions options, const Backend& backend);

}  // namespace metronome::executor::compile
