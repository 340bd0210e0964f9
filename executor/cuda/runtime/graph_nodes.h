// Nodes of graphs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "executor/cuda/libraries/handle.h"
#include "ops/cuda/commands.h"

namespace metronome::executor::runtime {

// Owners of what CUDA hands out, and the check of its calls.
using namespace libraries;

/// Nodes at the top: those in bodies of conditional nodes are not among them.
std::vector<cudaGraphNodeType> node_types(cudaGraph_t graph);

/// The nodes of a child graph's node, and of child graphs in it; none of a node of another type.
std::vector<cudaGraphNode_t> nodes_within(cudaGraphNode_t node);

/// A type among them that a conditional node's body may not hold, as of CUDA 13.0.
std::optional<cudaGraphNodeType> unconditional(const std::vector<cudaGraphNodeType>& types);

/// Each adds one node after others, and gives what the runtime says. `kernel`: an address that the
/// runtime knows it by, or a cudaKernel_t; `arguments`: where each lies.
cudaError_t add_kernel(cudaGraphNode_t* made, cudaGraph_t graph,
                       std::span<const cudaGraphNode_t> after, const void* kernel,
                       const KernelShape& shape, void** arguments);
cudaError_t add_copy(cudaGraphNode_t* made, cudaGraph_t graph,
                     std::span<const cudaGraphNode_t> after, const CopyCommand& copy);
cudaError_t add_zero(cudaGraphNode_t* made, cudaGraph_t graph,
                     std::span<const cudaGraphNode_t> after, const ZeroCommand& zero);
/// A copy of `child`.
cudaError_t add_child(cudaGraphNode_t* made, cudaGraph_t graph,
                      std::span<const cudaGraphNode_t> after, cudaGraph_t child);

/// The executable graph, uploaded on the stream, which is waited for.
GraphExec instantiate(cudaGraph_t graph, cudaStream_t stream);

/// Lets the kernel `to` begin once all blocks of `from` have let it (begin_in_order).
cudaError_t add_early_edge(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to);

}  // namespace metronome::executor::runtime
