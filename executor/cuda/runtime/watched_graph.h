// Executable graphs whose nodes CUPTI's records can be told apart by.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "executor/cuda/driver/driver.h"
#include "executor/cuda/libraries/library.h"
#include "executor/cuda/runtime/activity.h"
#include "executor/cuda/runtime/graph_nodes.h"

namespace metronome::executor::runtime {

/// Nodes of graphs, and the copies of them that an instantiation makes. Records name a copy, by
/// CUPTI's number of it.
class NodeCopies {
 public:
  /// `commands`: the nodes that count, each with its place in the capture (RunRecord::command).
  explicit NodeCopies(std::unordered_map<cudaGraphNode_t, std::int32_t> commands)
      : commands_(std::move(commands)) {}

  bool has(cudaGraphNode_t node) const { return commands_.contains(node); }
  /// A copy of a node, or of another copy. That of a node which does not count is let go.
  void add(cudaGraphNode_t original, cudaGraphNode_t copy, std::uint64_t number);

  /// The records of a launch of the copies, in their order; others are let go.
  std::vector<RunRecord> runs(std::span<const NodeActivity> records) const;

 private:
  std::unordered_map<cudaGraphNode_t, std::int32_t> commands_;
  std::unordered_map<std::uint64_t, std::int32_t> numbers_;  ///< the commands of copies
};

/// An executable graph, and the copies that it consists of.
struct WatchedGraph {
  GraphExec exec;
  NodeCopies copies;
};

/// Instantiates a graph and uploads it on the stream, which it waits for. Throws RunError where
/// CUPTI refuses to tell of copies, as it does while another tool is told of them.
WatchedGraph instantiate_watched(const libraries::Library& cupti, cudaGraph_t graph,
                                 NodeCopies copies, cudaStream_t stream);

}  // namespace metronome::executor::runtime
