#include "executor/cuda/runtime/graph_nodes.h"

#include <algorithm>

#include "executor/cuda/runtime/kernel_code.h"

namespace metronome::executor::runtime {

namespace {

std::vector<cudaGraphNode_t> nodes_of(cudaGraph_t graph) {
  std::size_t count = 0;
  check(cudaGraphGetNodes(graph, nullptr, &count), "count a graph's nodes");
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) check(cudaGraphGetNodes(graph, nodes.data(), &count), "list a graph's nodes");
  return nodes;
}

cudaGraphNodeType type_of(cudaGraphNode_t node) {
  cudaGraphNodeType type = {};
  check(cudaGraphNodeGetType(node, &type), "tell a node's type");
  return type;
}

}  // namespace

std::vector<cudaGraphNodeType> node_types(cudaGraph_t graph) {
  std::vector<cudaGraphNodeType> types;
  for (const cudaGraphNode_t node : nodes_of(graph)) types.push_back(type_of(node));
  return types;
}

std::vector<cudaGraphNode_t> nodes_within(cudaGraphNode_t node) {
  if (type_of(node) != cudaGraphNodeTypeGraph) return {};
  cudaGraph_t child = nullptr;
  check(cudaGraphChildGraphNodeGetGraph(node, &child), "look into a child graph");
  std::vector<cudaGraphNode_t> nodes = nodes_of(child);
  for (std::size_t i = 0, top = nodes.size(); i < top; ++i) {
    const std::vector<cudaGraphNode_t> within = nodes_within(nodes[i]);
    nodes.insert(nodes.end(), within.begin(), within.end());
  }
  return nodes;
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

cudaError_t add_kernel(cudaGraphNode_t* made, cudaGraph_t graph,
                       std::span<const cudaGraphNode_t> after, const void* kernel,
                       const KernelShape& shape, void** arguments) {
  cudaKernelNodeParams node = {};
  node.func = const_cast<void*>(kernel);
  node.gridDim = {static_cast<unsigned>(shape.blocks), 1, 1};
  node.blockDim = {static_cast<unsigned>(shape.threads), 1, 1};
  node.sharedMemBytes = launched_shared_bytes(shape);
  node.kernelParams = arguments;
  return cudaGraphAddKernelNode(made, graph, after.data(), after.size(), &node);
}

cudaError_t add_copy(cudaGraphNode_t* made, cudaGraph_t graph,
                     std::span<const cudaGraphNode_t> after, const CopyCommand& copy) {
  return cudaGraphAddMemcpyNode1D(made, graph, after.data(), after.size(), copy.to, copy.from,
                                  copy.bytes, cudaMemcpyDefault);
}

cudaError_t add_zero(cudaGraphNode_t* made, cudaGraph_t graph,
                     std::span<const cudaGraphNode_t> after, const ZeroCommand& zero) {
  cudaMemsetParams node = {};
  node.dst = zero.to;
  node.elementSize = 1;
  node.width = zero.bytes;
  node.height = 1;
  return cudaGraphAddMemsetNode(made, graph, after.data(), after.size(), &node);
}

cudaError_t add_child(cudaGraphNode_t* made, cudaGraph_t graph,
                      std::span<const cudaGraphNode_t> after, cudaGraph_t child) {
  return cudaGraphAddChildGraphNode(made, graph, after.data(), after.size(), child);
}

GraphExec instantiate(cudaGraph_t graph, cudaStream_t stream) {
  cudaGraphExec_t made = nullptr;
  check(cudaGraphInstantiate(&made, graph, 0), "instantiate a graph");
  GraphExec exec(made);
  check(cudaGraphUpload(made, stream), "upload a graph");
  check(cudaStreamSynchronize(stream), "upload a graph");
  return exec;
}

cudaError_t add_early_edge(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to) {
  cudaGraphEdgeData edge = {};
  edge.from_port = cudaGraphKernelNodePortProgrammatic;
  edge.type = cudaGraphDependencyTypeProgrammatic;
  return cudaGraphAddDependencies(graph, &from, &to, &edge, 1);
}

}  // namespace metronome::executor::runtime
