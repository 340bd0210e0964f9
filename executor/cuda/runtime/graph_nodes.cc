#include "executor/cuda/runtime/graph_nodes.h"

#include <algorithm>

#include "executor/cuda/runtime/handle.h"

namespace metronome::executor::runtime {

std::vector<cudaGraphNodeType> node_types(cudaGraph_t graph) {
  std::size_t count = 0;
  check(cudaGraphGetNodes(graph, nullptr, &count), "count a graph's nodes");
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) check(cudaGraphGetNodes(graph, nodes.data(), &count), "list a graph's nodes");
  std::vector<cudaGraphNodeType> types(count);
  for (std::size_t i = 0; i < count; ++i) {
    check(cudaGraphNodeGetType(nodes[i], &types[i]), "tell a node's type");
  }
  return types;
}

std::optional<cudaGraphNodeType> unconditional(const std::vector<cudaGraphNodeType>& types) {
  constexpr cudaGraphNodeType kAllowed[] = {cudaGraphNodeTypeKernel, cudaGraphNodeTypeMemcpy,
                                            cudaGraphNodeTypeMemset, cudaGraphNodeTypeEmpty,
                                            cudaGraphNodeTypeGraph,  cudaGraphNodeTypeConditional};
  const auto found = std::ranges::find_if(types, [&](cudaGraphNodeType type) {
    return std::ranges::find(kAllowed, type) == std::end(kAllowed);
  });
  if (found == types.end()) return std::nullopt;
  return *found;
}

}  // namespace metronome::executor::runtime
