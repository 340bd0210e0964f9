// What stands in a captured graph.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>
#include <vector>

namespace metronome::executor::runtime {

/// Nodes at the top: those in bodies of conditional nodes are not among them.
std::vector<cudaGraphNodeType> node_types(cudaGraph_t graph);

/// A type among them that a conditional node's body may not hold, as of CUDA 13.0.
std::optional<cudaGraphNodeType> unconditional(const std::vector<cudaGraphNodeType>& types);

}  // namespace metronome::executor::runtime
