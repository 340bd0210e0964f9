// A device's graph, made node by node.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "executor/cuda/driver/driver.h"
#include "executor/cuda/runtime/graph_nodes.h"

namespace metronome::executor::runtime {

/// Turns the order that streams, events and conditions set into edges of a graph. No stream is
/// captured meanwhile: any call may be made beside it, and one that fails leaves nothing behind but
/// this object.
///
/// Calls throw InternalError where the executor broke a rule of capture.
class GraphBuilder {
 public:
  /// Adds one node to `graph`, after those nodes; what the runtime says.
  using NodeMaker = std::function<cudaError_t(cudaGraphNode_t* made, cudaGraph_t graph,
                                              std::span<const cudaGraphNode_t> after)>;

  /// Begins on a stream; others join it by waiting for events recorded in it.
  explicit GraphBuilder(CudaStream origin);
  GraphBuilder(GraphBuilder&&) = default;

  CudaStream origin() const { return origin_; }
  bool takes(CudaStream stream) const { return streams_.contains(stream.index); }
  /// Whether what is added stands in a conditional node.
  bool in_case() const { return !open_.empty(); }

  /// From here on a kernel of our own that comes after one other alone begins early
  /// (CudaDriver::begin_early).
  void begin_early() { early_ = true; }

  /// The next command of a stream, a node which a launch runs as `nodes`. `own`: a kernel that says
  /// begin_in_order (ops/kernel/context.h).
  void add(CudaStream stream, int nodes, const NodeMaker& make, bool own = false);
  /// A command that is no node: a library's call that enqueues nothing.
  void skip() { ++commands_; }
  void record(CudaEvent event, CudaStream stream);
  /// False for an event of no stream of this graph: the stream is left alone.
  bool wait(CudaStream stream, CudaEvent event);

  /// As of CudaDriver, on the origin.
  void begin_cases(std::span<const bool* const> guards, bool otherwise);
  void next_case();
  void end_cases();

  /// All of it, those in bodies and child graphs included.
  int nodes() const { return nodes_; }
  /// The nodes that do work, those that read guards among them, each with its command
  /// (RunRecord::command).
  const std::unordered_map<cudaGraphNode_t, std::int32_t>& commands() const { return work_; }
  /// The graph, which owns all that was added.
  RecordedGraph take();

 private:
  using Nodes = std::vector<cudaGraphNode_t>;

  /// A conditional node whose bodies are being made; the graph owns them.
  struct Condition {
    cudaGraphNode_t node = nullptr;
    std::vector<cudaGraph_t> bodies;
    std::size_t body = 0;  // the one being made
    Nodes last;            // in it: the nodes that its next one comes after
  };

  cudaGraph_t graph() const;
  cudaGraphNode_t add_node(CudaStream stream, int nodes, const NodeMaker& make, bool own = false);
  /// The nodes that the stream's next one comes after.
  Nodes& last(CudaStream stream);

  CudaStream origin_;
  RecordedGraph graph_;
  std::map<int, Nodes> streams_;  // by index
  std::map<int, Nodes> events_;   // by index: what the stream had reached
  std::vector<Condition> open_;   // outer first
  bool early_ = false;
  std::set<cudaGraphNode_t> own_;
  int nodes_ = 0;
  std::int32_t commands_ = 0;  // so far
  std::unordered_map<cudaGraphNode_t, std::int32_t> work_;
};

}  // namespace metronome::executor::runtime
